package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/examples/internal/fleet"
	"github.com/rowlock/rowlock/examples/internal/servers"
	"github.com/rowlock/rowlock/examples/internal/timed"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

// writerTask is what a writer is told.
type writerTask struct {
	Name, Space, URL string
	TTL              time.Duration
}

// order is one step of a writer; answer is what came of it.
type (
	order struct {
		Do   string // acquire, check, write
		Text string
	}
	answer struct {
		Token  int64
		Lease  string // what is wrong with it
		Status int
		Reply  string
	}
)

// key is what the writers lock: always the same one for the same file.
const key = "files/" + fileName

// playWriter does what it is told, one step at a time, so that the story can be
// stopped at the worst moment.
func playWriter(ctx context.Context, parent *fleet.Parent) (err error) {
	var t writerTask
	if err := parent.Receive(&t); err != nil {
		return err
	}
	store, err := servers.MySQL.OpenStore(mysqllock.Options{Prefix: t.Space})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	locks, err := rowlock.New(store, rowlock.Options{TTL: t.TTL, Owner: t.Name})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, timed.Within(5*time.Second, locks.Close)) }()

	var lease *rowlock.Lease
	for {
		var o order
		if err := parent.Receive(&o); err != nil {
			return nil // the story is over
		}
		var a answer
		switch o.Do {
		case "acquire":
			if lease, err = locks.Acquire(ctx, key); err != nil {
				return err
			}
			a.Token = lease.Token()
		case "check":
			if err := lease.Err(); err != nil {
				a.Lease = err.Error()
			}
		case "write":
			if a.Status, a.Reply, err = put(ctx, t.URL, o.Text, lease.Token()); err != nil {
				return err
			}
		}
		if err := parent.Send(a); err != nil {
			return err
		}
	}
}

// put sends the token with the file.
func put(ctx context.Context, url, text string, token int64) (status int, reply string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, url, strings.NewReader(text))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set(tokenHeader, strconv.FormatInt(token, 10))
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, "", fmt.Errorf("read the answer: %w", err)
	}
	return res.StatusCode, strings.TrimSpace(string(body)), nil
}
