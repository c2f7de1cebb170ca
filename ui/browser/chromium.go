// Package browser looks at the page of package ui in a real browser, Chromium without a window: its tests
// are here, and the program shots, which makes the pictures in the documentation.
//
// The browser is the one that ROWLOCK_TEST_CHROMIUM names, or one in PATH, or is fetched: on Debian (x86_64) by
// provision.sh, once, into the cache of the test servers.
package browser

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/chromedp/chromedp"
)

//go:embed provision.sh
var provision string

// ErrNone: there is no browser, and none can be fetched.
var ErrNone = errors.New("no Chromium: install one, or name it in ROWLOCK_TEST_CHROMIUM")

// Program is a browser.
type Program struct {
	Path string
	Env  []string
}

// Find finds a browser, or fetches one; what it does it says on log.
func Find(ctx context.Context, log io.Writer) (Program, error) {
	if path := os.Getenv("ROWLOCK_TEST_CHROMIUM"); path != "" {
		return Program{Path: path}, nil
	}
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return Program{Path: path}, nil
		}
	}
	if _, err := exec.LookPath("dpkg-deb"); err != nil || runtime.GOARCH != "amd64" {
		return Program{}, ErrNone
	}
	cache := os.Getenv("ROWLOCK_TEST_CACHE")
	if cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return Program{}, fmt.Errorf("%w: %w", ErrNone, err)
		}
		cache = filepath.Join(dir, "rowlock-testenv")
	}
	cmd := exec.CommandContext(ctx, "bash", "-s", cache)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(provision), log, log
	if err := cmd.Run(); err != nil {
		return Program{}, fmt.Errorf("fetch Chromium: %w", err)
	}
	tree := filepath.Join(cache, "chromium")
	found, err := filepath.Glob(filepath.Join(tree, "usr/lib/chromium/chromium-headless-shell"))
	if err != nil || len(found) == 0 {
		return Program{}, fmt.Errorf("%w: none in %s", ErrNone, tree)
	}
	var libraries []string
	for _, folder := range []string{"usr/lib/*-linux-gnu*", "usr/lib/*-linux-gnu*/pulseaudio", "lib/*-linux-gnu"} {
		more, err := filepath.Glob(filepath.Join(tree, folder))
		if err != nil {
			return Program{}, err
		}
		libraries = append(libraries, more...)
	}
	return Program{Path: found[0], Env: []string{
		"LD_LIBRARY_PATH=" + strings.Join(libraries, ":"),
		"FONTCONFIG_FILE=" + filepath.Join(tree, "fonts.conf"),
	}}, nil
}

// Start starts the browser: contexts made of the one that is returned by chromedp.NewContext are tabs of it. It runs
// until stop is called.
func (p Program) Start(ctx context.Context) (browser context.Context, stop func(), err error) {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(p.Path), chromedp.Env(p.Env...), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("hide-scrollbars", true), chromedp.Flag("lang", "en"))
	ctx, end := chromedp.NewExecAllocator(ctx, options...)
	browser, cancel := chromedp.NewContext(ctx)
	stop = func() { cancel(); end() }
	if err := chromedp.Do(browser, chromedp.Navigate("about:blank")); err != nil {
		stop()
		return nil, nil, fmt.Errorf("start %s: %w", p.Path, err)
	}
	return browser, stop, nil
}
