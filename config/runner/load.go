package runner

import (
	"errors"
	"fmt"
	"io"
	"os"
)

const (
	// root owns the files, and all directories on the way to them.
	root = 0

	// maxChanges is how often the directory of the file may be exchanged while it is read.
	maxChanges = 10
)

// LoadNode reads the file of the node's owner at Path below hostRoot, the host's root
// directory as the runner sees it ("/proc/1/root" or "/"). It takes the host's own way
// there, whatever was mounted or replaced since the last time. If there is none, nothing is
// denied: the result is nil. All else is an error: a link that leads nowhere, a file or a
// directory on the way that others than root may write, every mistake in the file. Then
// nothing should be executed.
func LoadNode(hostRoot string) (*Veto, error) {
	return load(hostRoot, Path, root)
}

// LoadConfig is LoadNode for a file at a path here that says the same of many nodes. It has
// to be there.
func LoadConfig(path string) (*Veto, error) {
	veto, err := load("/", path, root)
	if err == nil && veto == nil {
		err = fmt.Errorf("reading --config=%s: there is no such file", path)
	}
	return veto, err
}

// load is LoadNode for files of a user.
func load(hostRoot, path string, owner uint32) (*Veto, error) {
	var before absentError
	for range maxChanges {
		file, err := open(hostRoot, path, owner)
		if err == nil {
			return parseFile(path, file)
		}
		var absent absentError
		if !errors.As(err, &absent) || absent.in == nil {
			return nil, fmt.Errorf("reading the node's veto: %w", err)
		}
		// The directory may have been replaced while it was looked at, and emptied since.
		// There was no file only if the way still leads to the same one.
		if before.in != nil && os.SameFile(before.in, absent.in) {
			return nil, nil
		}
		before = absent
	}
	return nil, fmt.Errorf("reading the node's veto: the directories of %s are being replaced all the time", path)
}

// parseFile reads and closes the file.
func parseFile(path string, file *os.File) (*Veto, error) {
	data, err := io.ReadAll(file)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("reading the node's veto: %w", err)
	}
	return Parse(path, data)
}
