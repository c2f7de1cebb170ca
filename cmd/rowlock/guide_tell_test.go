package main

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/internal/docpage"
	"github.com/rowlock/rowlock/internal/testserver"
)

// TestGuideTellsOthers: the lines of the guide that start a command again, send pings and run a command of their own do so.
func TestGuideTellsOthers(t *testing.T) {
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.Mongo) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			address := database(t, kind)
			h := newHost(t, address)
			must(t, h.store.Migrate(t.Context()))
			h.env = append(h.env, "ROWLOCK_DB="+address)
			line := func(name string) string {
				return strings.TrimSpace(strings.ReplaceAll(docpage.One(t, jobsGuide, "line", name), "/usr/local/bin/", h.folder+"/"))
			}

			w := newWatcher(t, func(http.ResponseWriter, int) {})
			cron := newHost(t, address)
			cron.program("report", "echo made")
			crontab := strings.ReplaceAll(cron.crontab(address, "ping"), "https://hc-ping.com", w.URL)
			if got := cron.run(crontab); got != "made\n" {
				t.Errorf("the first: %q", got)
			}
			if got := cron.run(crontab); got != "" {
				t.Errorf("the second: %q", got)
			}
			if got, want := w.take(), []string{"/ID/start", "/ID"}; !slices.Equal(got, want) {
				t.Errorf("the pings are %q, want %q", got, want)
			}

			rounds := filepath.Join(h.folder, "rounds")
			h.program("indexer", `[ -e rounds ] && exec echo again; touch rounds; exec sleep 60`)
			again := make(chan string, 1)
			cmd := h.sh(line("keep-going"))
			go func() {
				out, _ := cmd.CombinedOutput()
				again <- string(out)
			}()
			eventually(t, "the first round has begun", func() bool { _, err := os.Stat(rounds); return err == nil })
			if _, err := h.store.ForceRelease(t.Context(), "indexer"); err != nil {
				t.Error(err)
			}
			if got := <-again; !strings.Contains(got, "is lost (forced)") || !strings.HasSuffix(got, "\nagain\n") {
				t.Errorf("%q", got)
			}

			h.program("logger", "echo $* >logged")
			h.program("deploy.sh", "echo deployed")
			h.background("rowlock run --owner nightly deploy -- sleep 60")
			eventually(t, "somebody has the key", func() bool { return h.run("rowlock ls -o names") != "" })
			h.run(strings.Replace(line("on-fail"), "--wait 30m", "--wait 5s", 1))
			logged, err := os.ReadFile(filepath.Join(h.folder, "logged"))
			must(t, err)
			if !strings.HasPrefix(string(logged), `deploy: "deploy" is held by nightly`) {
				t.Errorf("logged: %q", logged)
			}
		})
	}
}
