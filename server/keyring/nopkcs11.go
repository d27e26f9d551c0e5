//go:build !pkcs11

package keyring

import "errors"

func openToken(uri, Secrets) (token, error) {
	return nil, errors.New("this build reads no PKCS #11 tokens: build it with the tag pkcs11, and cgo")
}
