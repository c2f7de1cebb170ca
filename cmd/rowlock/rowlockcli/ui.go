package rowlockcli

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/ui"
)

const uiLong = `Serves a web page about the keys that begin with PREFIX: who holds what, whether the holder lives, who waits, what
was lost lately. It only reads, without --allow-free, and ends at Ctrl-C.

Without --users everybody who reaches the address sees the page, so it is one of this machine only. With --users
a browser asks for a name and a password; FILE has a line for each user, as "htpasswd -nB NAME" prints it (bcrypt). Then the
address may be one that other machines reach, if --tls-cert and --tls-key are given, or --insecure where a proxy in front has TLS.
With --allow-free and without --users the page is behind a link with a secret, which is printed.`

// uiFlags are those of rowlock ui.
type uiFlags struct {
	listen, users, cert, key string
	hosts                    []string
	free, insecure           bool
	refresh                  duration
}

func (a *app) uiCommand() *cobra.Command {
	f := uiFlags{refresh: duration(2 * time.Second)}
	cmd := &cobra.Command{
		Use:   "ui [PREFIX]",
		Short: "Serve a web page about the locks",
		Long:  uiLong,
		Args:  cobra.MaximumNArgs(1),
		RunE:  a.query(func(q *query, args []string) error { return q.ui(strings.Join(args, ""), f) }),
	}
	set := cmd.Flags()
	set.StringVar(&f.listen, "listen", "127.0.0.1:8990", "the `address`; port 0: any free one")
	set.StringSliceVar(&f.hosts, "host", nil, "a `name` under which browsers reach the page, beside localhost and the address")
	set.StringVar(&f.users, "users", "", "the `file` of those who may look, as htpasswd -B writes it")
	set.BoolVar(&f.free, "allow-free", false, "let them end holds, too")
	set.StringVar(&f.cert, "tls-cert", "", "the `file` of the certificate")
	set.StringVar(&f.key, "tls-key", "", "the `file` of its key")
	set.BoolVar(&f.insecure, "insecure", false, "passwords may travel without TLS: a proxy in front has it")
	set.Var(&f.refresh, "refresh", "the time between two looks at the database")
	return cmd
}

// ui serves the page until a signal comes.
func (q *query) ui(prefix string, f uiFlags) error {
	var users *htpasswd
	if f.users != "" {
		var err error
		if users, err = readHtpasswd(f.users); err != nil {
			return err
		}
	}
	if (f.cert == "") != (f.key == "") {
		return invalid("--tls-cert and --tls-key go together")
	}
	if f.cert != "" {
		if _, err := tls.LoadX509KeyPair(f.cert, f.key); err != nil {
			return invalid("--tls-cert and --tls-key: %w", err)
		}
	}
	ip := addressOf(f.listen)
	if users != nil && !ip.IsLoopback() && f.cert == "" && !f.insecure {
		return invalid("--listen %s: other machines reach it, and passwords would travel without TLS: add --tls-cert and --tls-key, or --insecure where a proxy in front has TLS", f.listen)
	}
	o := ui.Options{Database: q.database(), Prefix: prefix, Refresh: time.Duration(f.refresh), Hosts: f.hosts, Logger: q.logger()}
	if !ip.IsUnspecified() {
		o.Hosts = append(o.Hosts, ip.String())
	}
	if f.free {
		o.MayFree = ui.User
	}
	page, err := ui.New(q.Store, o)
	if err != nil {
		return err
	}
	defer page.Close()
	listener, err := ui.Listen(f.listen, users != nil) // when all else is right
	if err != nil {
		return notListening(f.listen, err)
	}
	defer listener.Close()
	handler, link := q.protect(page, users, f)
	scheme := "http"
	if f.cert != "" {
		scheme = "https"
	}
	// Not by print: a password that is part of the link by chance would be taken out of it.
	fmt.Fprintf(q.cmd.OutOrStdout(), "the page is at %s://%s/%s\n", scheme, listener.Addr(), link)
	return q.serve(listener, handler, page, f)
}

// database is what the page says of where the locks are. A collection of MongoDB does not know its servers.
func (q *query) database() string {
	store, ok := q.Store.(fmt.Stringer)
	if !ok {
		return ""
	}
	if q.hosts != "" {
		return store.String() + " @ " + q.hosts + " (MongoDB)"
	}
	return store.String()
}

// addressOf is the address of host:port on which ui.Listen listens; that of every network if there is none.
func addressOf(listen string) net.IP {
	host, _, err := net.SplitHostPort(listen)
	switch {
	case err != nil || host == "":
		return net.IPv6unspecified
	case strings.EqualFold(host, "localhost"):
		return net.IPv4(127, 0, 0, 1)
	}
	if address, err := net.ResolveIPAddr("ip", host); err == nil && address.IP != nil {
		return address.IP
	}
	return net.IPv6unspecified
}

// notListening is the error of an address on which the page cannot be.
func notListening(address string, err error) error {
	switch _, _, form := net.SplitHostPort(address); {
	case errors.Is(err, syscall.EADDRINUSE):
		return invalid("--listen %s: another program listens there: choose another port (0: any free one)", address)
	case form == nil && errors.Is(err, driver.ErrInvalid):
		return invalid("--listen: %w: --users FILE", err)
	}
	return invalid("--listen: %w", err)
}

// protect puts the page behind what asks who looks; link is what the address ends with.
func (q *query) protect(page http.Handler, users *htpasswd, f uiFlags) (handler http.Handler, link string) {
	switch {
	case users != nil:
		return ui.BasicAuth(users.check, page), ""
	case f.free:
		secret := rand.Text()
		return ui.SecretLink(secret, page), "?secret=" + secret
	}
	return page, ""
}

// serve answers until a signal comes.
func (q *query) serve(listener net.Listener, handler http.Handler, page *ui.Handler, f uiFlags) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute,
	}
	server.RegisterOnShutdown(func() { _ = page.Close() })
	ended := make(chan error, 1)
	go func() {
		if f.cert != "" {
			ended <- server.ServeTLS(listener, f.cert, f.key)
			return
		}
		ended <- server.Serve(listener)
	}()
	select {
	case err := <-ended:
		return &ExitError{Code: exitFailed, Err: err}
	case <-q.ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return errors.Join(context.Cause(q.ctx), server.Close())
	}
	return context.Cause(q.ctx)
}
