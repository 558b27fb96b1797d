package command

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// machines are those whose programs a kernel executes by itself, by runtime.GOARCH.
var machines = map[string][]elf.Machine{
	"amd64":   {elf.EM_X86_64, elf.EM_386},
	"arm64":   {elf.EM_AARCH64, elf.EM_ARM},
	"ppc64le": {elf.EM_PPC64, elf.EM_PPC},
	"riscv64": {elf.EM_RISCV},
	"s390x":   {elf.EM_S390},
}

// whyNotExecutable looks for the reason that the host's kernel has for refusing to
// execute a file. It returns nil if there is none to be seen.
func whyNotExecutable(hostProc, path string) error {
	return within(func() error { return whyRefused(hostProc, path) })
}

func whyRefused(hostProc, path string) error {
	there, err := openInHost(hostProc, path, unix.O_PATH)
	if err != nil {
		return certain(err)
	}
	defer func() { _ = there.Close() }()
	info, err := there.Stat()
	switch {
	case err != nil:
		return nil
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0:
		return fs.ErrPermission
	}
	var mount unix.Statfs_t
	if unix.Fstatfs(int(there.Fd()), &mount) == nil && mount.Flags&unix.ST_NOEXEC != 0 {
		return fmt.Errorf("%w: its file system is mounted with noexec", fs.ErrPermission)
	}
	file, err := openInHost(hostProc, path, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }()
	interpreter, err := interpreterOf(hostProc, file)
	if err != nil || interpreter == "" {
		return err
	}
	program, err := openInHost(hostProc, interpreter, unix.O_PATH)
	if err != nil {
		if err = certain(err); err != nil {
			err = fmt.Errorf("its interpreter %s: %w", interpreter, err)
		}
		return err
	}
	return program.Close()
}

// certain returns an error that the kernel has at an execution as well, else nil.
func certain(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return err
	}
	return nil
}

// interpreterOf returns what is executed in place of a file, if anything is. An error
// means that the kernel can't execute the file; where that is not certain, it is nil.
func interpreterOf(hostProc string, file io.ReaderAt) (string, error) {
	head := make([]byte, 256)
	n, err := file.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", nil
	}
	head = head[:n]
	if line, isScript := bytes.CutPrefix(head, []byte("#!")); isScript {
		line, _, _ = bytes.Cut(line, []byte("\n"))
		if fields := strings.Fields(string(line)); len(fields) > 0 {
			return fields[0], nil
		}
		return "", nil
	}
	if !isNative(head) {
		if hasOtherFormats(hostProc) {
			return "", nil
		}
		return "", syscall.ENOEXEC
	}
	program, err := elf.NewFile(file)
	if err != nil {
		return "", nil //nolint:nilerr // the kernel reads less of it, and may execute it
	}
	for _, segment := range program.Progs {
		if segment.Type == elf.PT_INTERP && segment.Filesz < unix.PathMax {
			path, _ := io.ReadAll(segment.Open()) // without an interpreter nothing is certain
			return string(bytes.TrimRight(path, "\x00")), nil
		}
	}
	return "", nil
}

// isNative reports whether a file that begins so is a program for this machine.
func isNative(head []byte) bool {
	if len(head) < 20 || !bytes.HasPrefix(head, []byte(elf.ELFMAG)) {
		return false
	}
	var order binary.ByteOrder = binary.LittleEndian
	if elf.Data(head[elf.EI_DATA]) == elf.ELFDATA2MSB {
		order = binary.BigEndian
	}
	native, known := machines[runtime.GOARCH]
	return !known || slices.Contains(native, elf.Machine(order.Uint16(head[18:])))
}

// hasOtherFormats reports whether the host's kernel may execute files of formats that it
// was told of (binfmt_misc).
func hasOtherFormats(hostProc string) bool {
	entries, err := os.ReadDir(filepath.Join(hostProc, "1", "root", "proc", "sys", "fs", "binfmt_misc"))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() != "register" && e.Name() != "status" })
}
