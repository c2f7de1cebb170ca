package ui_test

import (
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/memory"
	"github.com/rowlock/rowlock/ui"
)

// mount adds the page to the pages that a program has for its operators.
func mount(mux *http.ServeMux, server *http.Server, store driver.Store) error {
	page, err := ui.New(store, ui.Options{
		Title: "Locks of the shop",
		Hosts: []string{"internal.example.com"},
	})
	if err != nil {
		return err
	}
	server.RegisterOnShutdown(func() { _ = page.Close() }) // its streams would keep the server
	mux.Handle("/locks/", page)
	return nil
}

// serve serves the page alone, to users who log in, and lets one of them free keys. check knows the passwords.
func serve(store driver.Store, check func(name, password string) bool) error {
	page, err := ui.New(store, ui.Options{
		Hosts: []string{"locks.example.com"},
		MayFree: func(r *http.Request) (string, bool) {
			user, ok := ui.User(r)
			return user, ok && user == "ada"
		},
		Logger: slog.Default(),
	})
	if err != nil {
		return err
	}
	defer page.Close()
	listener, err := ui.Listen(":8990", true) // refused if it were false: other machines reach it
	if err != nil {
		return err
	}
	server := &http.Server{Handler: ui.BasicAuth(check, page), ReadHeaderTimeout: 5 * time.Second}
	return server.ServeTLS(listener, "cert.pem", "key.pem")
}

func ExampleNew() {
	mux := http.NewServeMux()
	if err := mount(mux, &http.Server{}, memory.New()); err != nil {
		log.Fatal(err)
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/locks/", nil))
	fmt.Println(w.Code, w.Header().Get("Content-Type"))
	_ = serve
	// Output: 200 text/html; charset=utf-8
}
