package network

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/mdlayher/ethtool"
)

// link is what both ends of an interface's link can do, in Mb/s; 0: that is not known, as of
// most that are no copper.
type link struct{ fastest int }

// links asks the kernel what both ends of the links of these interfaces can do. It tells
// nothing before Linux 5.6, and of virtual interfaces.
func links(names []string) (map[string]link, error) {
	client, err := ethtool.New()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close() }() // was only read
	all := map[string]link{}
	for _, name := range names {
		mode, err := linkMode(client, name)
		if err == nil && mode.Autoneg == ethtool.AutonegOn { // else somebody has set the speed
			all[name] = link{fastest: fastest(mode.Ours, mode.Peer)}
		}
	}
	return all, nil
}

// linkMode asks for the modes of a link. The library panics on one that is newer than it; a card
// that has such modes is not known to be slow.
func linkMode(client interface {
	LinkMode(of ethtool.Interface) (*ethtool.LinkMode, error)
}, name string,
) (mode *ethtool.LinkMode, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("the modes of its link are not understood: %v", cause)
		}
	}()
	return client.LinkMode(ethtool.Interface{Name: name})
}

// fastest is the speed of the fastest mode that both ends offer, in Mb/s.
func fastest(ours, peers []ethtool.AdvertisedLinkMode) (most int) {
	offered := map[string]bool{}
	for _, mode := range peers {
		offered[mode.Name] = true
	}
	for _, mode := range ours {
		if offered[mode.Name] {
			most = max(most, speed(mode.Name))
		}
	}
	return most
}

// speed is that of a mode such as 1000baseT/Full, in Mb/s; 0 if it is none.
func speed(mode string) int {
	number, _, _ := strings.Cut(mode, "base")
	n, err := strconv.Atoi(number)
	if err != nil {
		return 0 // such as Autoneg
	}
	return n
}
