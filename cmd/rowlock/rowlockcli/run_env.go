package rowlockcli

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

// The variables of the command.
const (
	envKey   = "ROWLOCK_KEY"
	envToken = "ROWLOCK_TOKEN"
	envOwner = "ROWLOCK_OWNER"
	envTTL   = "ROWLOCK_TTL_MS"
	envRun   = "ROWLOCK_RUN"
	envSlot  = "ROWLOCK_SLOT"
	envStack = "ROWLOCK_STACK" // the keys that enclosing calls of run hold
)

// environment is that of the command: ours, with what it may want to know of its lease, and without
// the address and password of the database.
func (r *run) environment() []string {
	own := []string{
		envKey + "=" + r.key,
		envToken + "=" + fmt.Sprint(r.lease.Token()),
		envOwner + "=" + r.owner(),
		envTTL + "=" + fmt.Sprint(time.Duration(r.f.ttl).Milliseconds()),
		envStack + "=" + strings.TrimSpace(os.Getenv(envStack)+" "+r.stackEntry()),
	}
	hidden := []string{envRun, envSlot} // of an enclosing one
	if r.runID != "" {
		own = append(own, envRun+"="+r.runID)
	}
	if r.f.slots > 0 {
		own = append(own, envSlot+"="+fmt.Sprint(r.lease.Slot()))
	}
	if !r.f.passDB {
		hidden = append(hidden, "ROWLOCK_DB", "ROWLOCK_PASSWORD")
	}
	return append(without(os.Environ(), append(hidden, namesOf(own)...)), own...)
}

// without leaves variables out. A program takes the first or the last of two with one name.
func without(environment, names []string) []string {
	return slices.DeleteFunc(environment, func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(names, name)
	})
}

func namesOf(environment []string) (names []string) {
	for _, entry := range environment {
		name, _, _ := strings.Cut(entry, "=")
		names = append(names, name)
	}
	return names
}

// owner is who has the key, for people; "host:pid" where nothing was said, as the library does.
func (r *run) owner() string {
	if r.f.owner != "" {
		return r.f.owner
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	return fmt.Sprintf("%.200s:%d", host, os.Getpid())
}

// stackEntry names the key in its lock space.
func (r *run) stackEntry() string {
	sum := sha256.Sum256([]byte(r.store.space))
	return fmt.Sprintf("%x:%s", sum[:4], url.QueryEscape(r.key))
}

// checkStack refuses a key that an enclosing run holds: that one waits for this one.
func (r *run) checkStack() error {
	if slices.Contains(strings.Fields(os.Getenv(envStack)), r.stackEntry()) {
		return invalid("%q is held by the rowlock run around this one, which waits for it to end: use another key, or leave one of them out", r.key)
	}
	return nil
}
