package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rowlock/rowlock/internal/docpage"
	"github.com/rowlock/rowlock/internal/testserver"
)

const (
	guide     = "../../docs/guides/command-line.md"
	jobsGuide = "../../docs/guides/jobs.md"
	manyGuide = "../../docs/guides/jobs-several.md"
	lockGuide = "../../docs/guides/command-line-locks.md"
	moveGuide = "../../docs/guides/migrations.md"
)

// host is a machine of the guide: a folder with programs, settings and a database.
type host struct {
	t      *testing.T
	folder string
	store  lockStore
	env    []string
}

func newHost(t *testing.T, address string) *host {
	t.Helper()
	h := &host{t: t, folder: t.TempDir(), store: open(t, address)}
	h.env = append(os.Environ(), "PATH="+h.folder+string(os.PathListSeparator)+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "HOME="+h.folder, "ROWLOCK_TIMEOUT=30s")
	return h
}

// program writes a script into the host's PATH.
func (h *host) program(name, text string) string {
	h.t.Helper()
	path := filepath.Join(h.folder, name)
	must(h.t, os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755))
	return path
}

// sh is a command line, in a shell as cron starts one.
func (h *host) sh(line string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), testserver.Patience(h.t))
	h.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "sh", "-c", "exec "+line)
	cmd.Dir, cmd.Env = h.folder, h.env
	return cmd
}

// run runs a line and returns what it wrote, with its exit code if that is not 0.
func (h *host) run(line string) string {
	h.t.Helper()
	out, err := h.sh(line).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return string(out) + fmt.Sprintf("[exit code %d]\n", exit.ExitCode())
	}
	must(h.t, err)
	return string(out)
}

// volatile are the parts of an output that are never the same.
var volatile = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`mysql://root:\*\*\*@127\.0\.0\.1:\d+/\w+`), "URL"},
	{regexp.MustCompile(`\b\d{15,20}\b`), "TOKEN"},
	{regexp.MustCompile(`\b[0-9a-f]{32}\b`), "HOLD"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`), "DATE"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d\b`), "CLOCK"},
	{regexp.MustCompile(`\b[0-9.]+(ms|s|m|m\d+s)\b`), "TIME"},
	{regexp.MustCompile(`\bslot [01]\b`), "SLOT"},
	{regexp.MustCompile(`[ \t]+`), " "},
}

func steady(text string) string {
	for _, v := range volatile {
		text = v.what.ReplaceAllString(text, v.with)
	}
	return text
}

// TestGuideSessions runs the sessions of the guide and compares what they write, but for times and tokens.
func TestGuideSessions(t *testing.T) {
	for _, block := range slices.Concat(docpage.Blocks(t, guide, "session"), docpage.Blocks(t, manyGuide, "session"), docpage.Blocks(t, lockGuide, "session"), docpage.Blocks(t, moveGuide, "session")) {
		t.Run(block.Name, func(t *testing.T) {
			t.Parallel()
			address := database(t, testserver.MySQL)
			h := newHost(t, address)
			h.env = append(h.env, "ROWLOCK_DB="+address)
			if block.Name != "tables" {
				must(t, h.store.Migrate(t.Context()))
			}
			for _, tool := range []string{"goose", "migrate"} {
				h.program(tool, ":")
			}
			var last *exec.Cmd // in the background
			for _, step := range strings.Split("\n"+block.Text, "\n$ ")[1:] {
				line, want, _ := strings.Cut(step, "\n")
				if strings.Contains(line, "TOKEN") {
					infos, err := h.store.Inspect(t.Context(), []string{"report"})
					must(t, err)
					line = strings.ReplaceAll(line, "TOKEN", fmt.Sprint(infos[0].Token))
				}
				if started, ok := strings.CutSuffix(line, " &"); ok {
					last = h.background(started)
					eventually(t, "somebody has the key", func() bool { return h.run("rowlock ls -o names") != "" })
					continue
				}
				if line == "kill -KILL 812" {
					must(t, last.Process.Kill())
					continue
				}
				if want != "" && !strings.HasSuffix(want, "\n") {
					want += "\n"
				}
				if got := h.run(line); steady(got) != steady(want) {
					t.Errorf("$ %s\n%s\nthe guide has\n%s", line, got, want)
				}
			}
		})
	}
}

// background runs a line until the test ends.
func (h *host) background(line string) *exec.Cmd {
	h.t.Helper()
	cmd := h.sh(line)
	must(h.t, cmd.Start())
	h.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	return cmd
}

// settings writes the file that ROWLOCK_CONFIG names in the guide, and puts it in its place.
func (h *host) settings(address, text string) string {
	h.t.Helper()
	path := filepath.Join(h.folder, "config")
	must(h.t, os.WriteFile(path, []byte("# of the test\ndb = "+address+"\n"), 0o600))
	return strings.NewReplacer("/etc/rowlock/config", path, "/usr/local/bin/rowlock", filepath.Join(bin, "rowlock"), "/usr/local/bin", h.folder).Replace(text)
}

// crontab is the command of the guide's crontab with that name, on this host. The environment is that of cron.
func (h *host) crontab(address, name string) string {
	h.t.Helper()
	lines := strings.Split(strings.TrimSpace(h.settings(address, docpage.One(h.t, jobsGuide, "crontab", name))), "\n")
	h.env = append(h.env, lines[:len(lines)-1]...)
	h.env = append(h.env, "PATH=/usr/bin:/bin")
	fields := strings.Fields(lines[len(lines)-1])
	return strings.Join(fields[5:], " ")
}

// TestGuideCrontab: who comes second says nothing, and makes no second run.
func TestGuideCrontab(t *testing.T) {
	t.Parallel()
	address := database(t, testserver.MySQL)
	h := newHost(t, address)
	must(t, h.store.Migrate(t.Context()))
	h.program("report", "echo made")
	line := h.crontab(address, "report")
	if got := h.run(line); got != "made\n" {
		t.Errorf("the first: %q", got)
	}
	if got := h.run(line); got != "" {
		t.Errorf("the second: %q", got)
	}
}

// TestGuideUnits: the services of the guide start what they should.
func TestGuideUnits(t *testing.T) {
	t.Parallel()
	address := database(t, testserver.MySQL)
	h := newHost(t, address)
	must(t, h.store.Migrate(t.Context()))
	h.program("report", "echo made")
	h.program("indexer", "exec sleep 60")
	start := func(unit string) string {
		text := h.settings(address, docpage.One(t, jobsGuide, "unit", unit))
		for _, line := range strings.Split(text, "\n") {
			if setting, ok := strings.CutPrefix(line, "Environment="); ok {
				h.env = append(h.env, setting)
			}
		}
		_, after, ok := strings.Cut(text, "\nExecStart=")
		if !ok {
			t.Fatalf("%s has no ExecStart", unit)
		}
		line, _, _ := strings.Cut(after, "\n")
		return line
	}
	if got := h.run(start("report.service")); got != "made\n" {
		t.Errorf("report.service: %q", got)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, l.Close())
	line := start("indexer.service")
	if !strings.Contains(line, "127.0.0.1:8089") {
		t.Fatalf("another address: %s", line)
	}
	h.background(strings.ReplaceAll(line, "127.0.0.1:8089", l.Addr().String()))
	eventually(t, "the service says that it leads", func() bool {
		response, err := http.Get("http://" + l.Addr().String() + "/healthz")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
}

// TestGuideInstall: in a clone the line of the guide makes the program.
func TestGuideInstall(t *testing.T) {
	t.Parallel()
	line := strings.Fields(docpage.One(t, guide, "install", "clone"))
	cmd := exec.Command(line[0], line[1:]...)
	folder := t.TempDir()
	cmd.Dir, cmd.Env = filepath.Join("..", ".."), append(os.Environ(), "GOBIN="+folder, "GOWORK=", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := exec.Command(filepath.Join(folder, "rowlock"), "version").CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "rowlock ") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestGuideDist: make dist makes the program for the three systems, under names that say which; here it is made for this one.
func TestGuideDist(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	plan, err := exec.Command("make", "--no-print-directory", "-C", filepath.Join("..", ".."), "-n", "dist").Output()
	must(t, err)
	for _, platform := range []string{"linux/amd64", "darwin/arm64", "windows/amd64"} {
		if !strings.Contains(string(plan), " "+platform) {
			t.Errorf("nothing is made for %s:\n%s", platform, plan)
		}
	}
	folder := t.TempDir()
	cmd := exec.Command("make", "--no-print-directory", "-C", filepath.Join("..", ".."), "dist", "PLATFORMS="+runtime.GOOS+"/"+runtime.GOARCH, "DIST="+folder)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program := filepath.Join(folder, "rowlock-"+runtime.GOOS+"-"+runtime.GOARCH)
	if !slices.Contains(strings.Fields(string(out)), program) {
		t.Errorf("it says %q", out)
	}
	licencesIn(t, folder, program)
	if _, err := exec.LookPath("dpkg-deb"); err == nil && runtime.GOOS == "linux" { // make dist makes it there
		installed(t, program+".deb")
	}
	if _, err := os.Stat(filepath.Join(folder, "Dockerfile")); err != nil {
		t.Error(err)
	}
	version, err := exec.Command(program, "version").Output()
	must(t, err)
	if strings.Contains(string(version), "(devel)") || !strings.Contains(string(version), runtime.GOOS+"/"+runtime.GOARCH) {
		t.Errorf("it is %s", version)
	}
}

// TestGuideCI: the line of the pipeline deploys.
func TestGuideCI(t *testing.T) {
	t.Parallel()
	address := database(t, testserver.MySQL)
	h := newHost(t, address)
	must(t, h.store.Migrate(t.Context()))
	h.env = append(h.env, "ROWLOCK_DB="+address)
	h.program("deploy.sh", "echo deployed")
	_, line, ok := strings.Cut(docpage.One(t, jobsGuide, "ci", "deploy"), "- ")
	if !ok {
		t.Fatal("no command")
	}
	if got := h.run(strings.TrimSpace(line)); got != "deployed\n" {
		t.Errorf("%q", got)
	}
}
