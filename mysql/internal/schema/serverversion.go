package schema

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/rowlock/rowlock/driver"
)

// The oldest servers with everything we use: FOR UPDATE SKIP LOCKED came with
// MySQL 8.0.1 and MariaDB 10.6.0.
const (
	minMySQL   = 8_00
	minMariaDB = 10_06
)

var leadingVersion = regexp.MustCompile(`^(?:5\.5\.5-)?(\d{1,9})\.(\d{1,9})`)

// Supported reports whether a server that names itself so is new enough. MariaDB
// puts 5.5.5- before its version where it speaks to old clients.
func Supported(version string) error {
	m := leadingVersion.FindStringSubmatch(version)
	if m == nil {
		return fmt.Errorf("%w: the server calls itself %q, which is neither MySQL nor MariaDB", driver.ErrNotSupported, version)
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	name, least, oldest := "MySQL", minMySQL, "8.0"
	if IsMariaDB(version) {
		name, least, oldest = "MariaDB", minMariaDB, "10.6"
	}
	if major*100+minor < least {
		return fmt.Errorf("%w: the server is %s %s: %s or newer is needed", driver.ErrNotSupported, name, version, oldest)
	}
	return nil
}

// IsMariaDB reports whether the version is one of MariaDB.
func IsMariaDB(version string) bool { return strings.Contains(strings.ToLower(version), "mariadb") }
