package keyring

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

const uriScheme = "pkcs11:"

// uri is what is read of a PKCS #11 URI (RFC 7512).
type uri struct {
	token  string // label
	serial string
	object string // label of new keys; empty: assay-USE
	module string // file of the PKCS #11 library
	pin    string // file of the PIN; empty: see Secrets
}

// parseURI reads a URI. Attributes that it does not know are refused: ignored, they would name another token than was
// meant.
func parseURI(text string) (u uri, err error) {
	rest, ok := strings.CutPrefix(text, uriScheme)
	if !ok {
		return u, fmt.Errorf("PKCS #11 URI %.200q: want %s", text, uriScheme)
	}
	path, query, _ := strings.Cut(rest, "?")
	seen := map[string]bool{}
	read := func(list, separator string, into map[string]*string) error {
		for _, attribute := range strings.Split(list, separator) {
			if attribute == "" {
				continue
			}
			name, value, _ := strings.Cut(attribute, "=")
			value, err := url.PathUnescape(value)
			to := into[name]
			switch {
			case name == "pin-value":
				return errors.New("PKCS #11 URI: pin-value: every user of a machine can read a command line; name a file with pin-source, or see " + envPIN)
			case err != nil || value == "" || seen[name]:
				return fmt.Errorf("PKCS #11 URI: attribute %.40q: want it once, with a value in percent encoding", name)
			case to == nil:
				return fmt.Errorf("PKCS #11 URI: attribute %.40q is not known to this build: token, serial, object, ?module-path, pin-source are", name)
			}
			seen[name] = true
			*to = value
		}
		return nil
	}
	err = errors.Join(read(path, ";", map[string]*string{"token": &u.token, "serial": &u.serial, "object": &u.object}),
		read(query, "&", map[string]*string{"module-path": &u.module, "pin-source": &u.pin}))
	if err != nil {
		return uri{}, err
	}
	u.pin = strings.TrimPrefix(u.pin, "file:")
	if u.token == "" && u.serial == "" || u.module == "" {
		return uri{}, errors.New("PKCS #11 URI: want a token or its serial number, and ?module-path=FILE of the token's library")
	}
	return u, nil
}

func (u uri) String() string {
	if u.token != "" {
		return fmt.Sprintf("PKCS #11 token %.80q", u.token)
	}
	return fmt.Sprintf("PKCS #11 token with serial number %.80q", u.serial)
}
