//go:build !unix

package testenv

import "errors"

func lockFile(string) (func(), error) {
	return nil, errors.New("the cache of server programs needs Unix")
}
