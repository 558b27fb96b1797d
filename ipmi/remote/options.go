package remote

import (
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/ipmi/lan"
)

// DefaultPort is the UDP port of IPMI over LAN.
const DefaultPort = 623

// Options say where the BMC is and how to log in.
type Options struct {
	// Host is a name or an address.
	Host string
	// Port is a UDP port; zero: DefaultPort.
	Port int
	// User has the privilege level or a higher one.
	User string
	// PasswordFile holds the user's password and nothing else; KeyFile the key of the BMC, K_g,
	// if it has one. They are read for each session, as people replace them, and only if not
	// everybody may read them.
	PasswordFile, KeyFile string
	// CipherSuite by its ID, 3 or 17; zero: 3, which most BMCs know.
	CipherSuite int
	// Privilege is the level of the session; zero: lan.User, which may read.
	Privilege lan.Privilege
	// Machine is the one whose BMC it has to be, by what the BMC says; zero: any.
	Machine power.UUID
}

func (o Options) address() string { return net.JoinHostPort(o.Host, strconv.Itoa(o.Port)) }

// login returns how to log in, with the secrets.
func (o Options) login() (lan.Options, error) {
	l := lan.Options{Address: o.address(), User: o.User, Suite: o.CipherSuite, Privilege: o.Privilege}
	var err error
	if l.Password, err = (power.Secret{File: o.PasswordFile, Private: true}).Read(); err != nil {
		return l, fmt.Errorf("the BMC's password: %w", err)
	}
	if o.KeyFile != "" {
		if l.Key, err = (power.Secret{File: o.KeyFile, Private: true}).Read(); err != nil {
			return l, fmt.Errorf("the BMC's key: %w", err)
		}
	}
	return l, nil
}

var errNoHost = errors.New("no host is given for the BMC")
