package schema

import (
	"errors"
	"testing"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/sqltest"
)

// FuzzVersion: any version is taken or refused; only a number of our own kind is taken.
func FuzzVersion(f *testing.F) {
	for _, s := range append(sqltest.Nasty, "8.0.36", "9.7.4-2", "5.7.44", "5.5.5-10.6.1-MariaDB", "10.11.6-MARIADB", "10.5.0-MariaDB", "99999999999999999999.1", "9223372036854775807.9223372036854775807", "-8.0", "8", "8.") {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if err := Supported(s); err != nil && !errors.Is(err, driver.ErrNotSupported) {
			t.Errorf("%q: %v", s, err)
		} else if err == nil && !leadingVersion.MatchString(s) {
			t.Errorf("%q is taken", s)
		}
	})
}
