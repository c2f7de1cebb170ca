package schema

import (
	"errors"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

func TestVersions(t *testing.T) {
	t.Parallel()
	for version, ok := range map[string]bool{
		"8.0.36": true, "9.7.4-2": true, "8.4.0-azure": true, "5.7.44-log": false,
		"10.11.18-MariaDB-0+deb12u1": true, "5.5.5-10.6.4-MariaDB": true, "11.4.2-MariaDB": true, "10.5.9-MariaDB-log": false,
		"unknown": false,
	} {
		err := Supported(version)
		if (err == nil) != ok {
			t.Errorf("%s: %v", version, err)
		}
		if err = conn.Classify("check", err); err != nil && (!errors.Is(err, driver.ErrNotSupported) || !driver.IsLasting(err) || !strings.Contains(err.Error(), version)) {
			t.Errorf("%s: %v: want a lasting ErrNotSupported that names it", version, err)
		}
	}
}
