package main

import (
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/ui"
)

// servePage serves the page of a night, for whoever wants to see which pod has the lock, until stop
// is called. It is mounted as a program does among its own pages.
func servePage(store driver.Store, address, title string) (link string, stop func() error, err error) {
	page, err := ui.New(store, ui.Options{Title: title, Refresh: 500 * time.Millisecond})
	if err != nil {
		return "", nil, err
	}
	listener, err := ui.Listen(address, false) // of this machine only: nobody is asked for a password
	if err != nil {
		return "", nil, errors.Join(err, page.Close())
	}
	mux := http.NewServeMux()
	mux.Handle("/locks/", page)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(listener) }() // until stop
	stop = func() error { return errors.Join(page.Close(), server.Close()) }
	return "http://" + listener.Addr().(*net.TCPAddr).String() + "/locks/", stop, nil
}
