package main

import (
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// TestUIDeadDatabase: while no server answers, by a refusal or by silence, the page says so, and nothing of any key.
func TestUIDeadDatabase(t *testing.T) {
	t.Parallel()
	refuses, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, refuses.Close())
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the system takes connections, and nobody reads from them
	must(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	for name, address := range map[string]string{
		"MySQL refuses":     "mysql://app@" + refuses.Addr().String() + "/locks",
		"MySQL is silent":   "mysql://app@" + silent.Addr().String() + "/locks",
		"MongoDB refuses":   "mongodb://" + refuses.Addr().String() + "/locks",
		"MongoDB is silent": "mongodb://" + silent.Addr().String() + "/locks",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			link, cmd := startUI(t, address)
			browser := &http.Client{Timeout: 30 * time.Second}
			for _, target := range []string{"", "?all=1", "key?k=7265706f7274"} {
				status, page := fetch(t, browser, link+target)
				if status != http.StatusOK || !strings.Contains(page, "The database does not answer") || !strings.Contains(page, "Not live.") {
					t.Errorf("%s: %d\n%s", target, status, page)
				}
				for _, claim := range []string{"is held", "is taken", "are taken", "badge", "has no key", "no loss"} {
					if strings.Contains(page, claim) {
						t.Errorf("%s: the page has %q:\n%s", target, claim, page)
					}
				}
			}
			if status, text := fetch(t, browser, link+"keys.json"); status != http.StatusBadGateway {
				t.Errorf("keys.json: %d\n%s", status, text)
			}
			must(t, cmd.Process.Signal(os.Interrupt))
			_ = cmd.Wait() // with the code of the signal
		})
	}
}
