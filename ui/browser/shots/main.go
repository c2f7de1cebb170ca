// Shots makes the pictures of the page in the documentation: a real page about locks that programs hold in the MySQL
// server which ROWLOCK_TEST_MYSQL_DSN names, seen by a real browser.
//
//	make shots
package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/go-sql-driver/mysql"

	mysqllock "github.com/rowlock/rowlock/mysql"
	"github.com/rowlock/rowlock/ui"
	"github.com/rowlock/rowlock/ui/browser"
)

func main() {
	folder := flag.String("out", "docs/img", "the `folder` of the pictures")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := run(ctx, *folder); err != nil {
		fmt.Fprintln(os.Stderr, "shots:", err)
		os.Exit(1)
	}
}

// run makes a database, lets programs take locks in it for a while, and takes the pictures.
func run(ctx context.Context, folder string) (err error) {
	program, err := browser.Find(ctx, os.Stderr)
	if err != nil {
		return err
	}
	dsn, drop, err := database(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, drop()) }()
	store, err := mysqllock.Open(dsn, mysqllock.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if err := store.Migrate(ctx); err != nil {
		return err
	}
	page, err := ui.New(store, ui.Options{Title: "Locks", Database: "shop @ db1:3306 (strategy version)", MayFree: func(*http.Request) (string, bool) { return "ada", true }})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, page.Close()) }()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: page, ReadHeaderTimeout: 5 * time.Second}
	defer func() { err = errors.Join(err, server.Close()) }()
	go func() { _ = server.Serve(listener) }() // until Close

	work, stop := context.WithCancel(ctx)
	shop := &shop{ctx: work, store: store}
	defer func() { err = errors.Join(err, shop.close()) }()
	defer stop()
	window, end, err := program.Start(ctx)
	if err != nil {
		return err
	}
	defer end()
	url := "http://" + listener.Addr().String() + "/"
	if err := chromedp.Do(window, chromedp.EmulateViewport(1200, 800, chromedp.EmulateScale(1)), chromedp.Navigate(url)); err != nil {
		return err
	}
	if err := shop.open(); err != nil {
		return err
	}
	for _, p := range []struct {
		file, scheme, target string
		width, height        int64
	}{
		{"ui-light.png", "light", "", 1200, 800},
		{"ui-dark.png", "dark", "", 1200, 800},
		{"ui-free.png", "light", "free?k=" + fmt.Sprintf("%x", "report/daily"), 900, 760},
		{"ui-narrow.png", "dark", "", 320, 700},
	} {
		picture, err := shoot(window, url+p.target, p.scheme, p.width, p.height)
		if err != nil {
			return fmt.Errorf("%s: %w", p.file, err)
		}
		if err := os.WriteFile(filepath.Join(folder, p.file), picture, 0o644); err != nil {
			return err
		}
		fmt.Println(filepath.Join(folder, p.file))
	}
	return nil
}

func shoot(ctx context.Context, url, scheme string, width, height int64) ([]byte, error) {
	_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	if err != nil {
		return nil, err
	}
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(width, height, chromedp.EmulateScale(1)), chromedp.Navigate(url)); err != nil {
		return nil, err
	}
	if _, err := chromedp.Run(ctx, chromedp.Poll[bool](`document.getElementById("live").innerText.startsWith("Live")`)); err != nil {
		return nil, err
	}
	return chromedp.Run(ctx, chromedp.CaptureScreenshot())
}

// database makes one of this run's own.
func database(ctx context.Context) (dsn string, drop func() error, err error) {
	config, err := mysql.ParseDSN(os.Getenv("ROWLOCK_TEST_MYSQL_DSN"))
	if err != nil || config.Addr == "" {
		return "", nil, errors.New("ROWLOCK_TEST_MYSQL_DSN is not set: run make shots")
	}
	admin, err := sql.Open("mysql", config.FormatDSN())
	if err != nil {
		return "", nil, err
	}
	config.DBName = "shots_" + strings.ToLower(rand.Text()[:8])
	if _, err := admin.ExecContext(ctx, "CREATE DATABASE "+config.DBName); err != nil {
		return "", nil, errors.Join(err, admin.Close())
	}
	return config.FormatDSN(), func() error {
		_, err := admin.Exec("DROP DATABASE " + config.DBName)
		return errors.Join(err, admin.Close())
	}, nil
}
