package lan

import (
	"errors"
	"fmt"
)

// ErrLogin is wrapped by errors of a BMC that does not accept the user, the password, the key
// or the privileges that are asked for.
var ErrLogin = errors.New("login refused")

// statusError returns the error of a status of RMCP+ (IPMI 2.0, table 13-15), nil for
// success. The level is the one that was asked for.
func statusError(status byte, level Privilege) error {
	switch status {
	case 0x00:
		return nil
	case 0x01, 0x0b:
		return fmt.Errorf("the BMC has too many sessions (RMCP+ status %#02x): it forgets them after a minute", status)
	case 0x04, 0x05, 0x10, 0x11:
		return fmt.Errorf("the BMC does not offer this cipher suite (RMCP+ status %#02x): choose another one", status)
	case 0x09, 0x0a:
		return fmt.Errorf("%w: the user may not have the privilege level %s on this channel (RMCP+ status %#02x)", ErrLogin, level, status)
	case 0x0c, 0x0d:
		return fmt.Errorf("%w: the BMC does not know the user, or it is disabled (RMCP+ status %#02x)", ErrLogin, status)
	case 0x0f:
		return fmt.Errorf("%w: wrong password or key (RMCP+ status %#02x)", ErrLogin, status)
	default:
		return fmt.Errorf("the BMC refuses a session (RMCP+ status %#02x)", status)
	}
}
