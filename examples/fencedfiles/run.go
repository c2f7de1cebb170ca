package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/rowlock/rowlock/examples/internal/fleet"
	"github.com/rowlock/rowlock/examples/internal/servers"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

const fileName = "report.txt"

// run tells the story. The error says where it did not go as it should.
func (s *story) run(ctx context.Context, w io.Writer) error {
	space := servers.NewSpace("fencedfiles")
	defer servers.MySQL.Drop("fencedfiles", space)
	if err := makeTables(ctx, space); err != nil {
		return fmt.Errorf("make the lock tables: %w", err)
	}
	dir, err := os.MkdirTemp("", "fencedfiles")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	files, err := newFileServer(dir, s.Fence)
	if err != nil {
		return err
	}
	defer files.seen.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	web := &http.Server{Handler: files.handler(), ReadHeaderTimeout: 10 * time.Second}
	go web.Serve(listener) // until Close
	defer web.Close()
	url := "http://" + listener.Addr().String() + "/files/" + fileName
	fmt.Fprintf(w, "a file server on %s, locks on MySQL, TTL %v\n\n", listener.Addr(), s.TTL)

	ctx, cancel := context.WithCancel(ctx)
	writers := make(map[string]*fleet.Process)
	defer func() {
		cancel() // kills what still runs, frozen or not
		for _, p := range writers {
			fleet.Reap(p)
		}
	}()
	for _, name := range []string{"alice", "bob"} {
		if writers[name], err = fleet.Start(ctx, roleWriter, writerTask{Name: name, Space: space, URL: url, TTL: s.TTL}); err != nil {
			return err
		}
	}
	t := &teller{w: w, begin: time.Now()}
	if err := t.tell(writers["alice"], writers["bob"]); err != nil {
		return err
	}
	content, err := os.ReadFile(files.path(fileName))
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\n%s: %q\n", fileName, content)
	switch won := string(content); {
	case s.Fence && won == bobsText:
		fmt.Fprintln(w, "The late write was refused.")
	case !s.Fence && won == alicesLateText:
		fmt.Fprintln(w, "Without tokens the late write won: what bob wrote is gone.")
	default:
		return errors.New("the file does not have what it should")
	}
	return errors.Join(writers["alice"].Close(), writers["bob"].Close())
}

func makeTables(ctx context.Context, space string) error {
	store, err := servers.MySQL.OpenStore(mysqllock.Options{Prefix: space})
	if err != nil {
		return err
	}
	return errors.Join(store.Migrate(ctx), store.Close())
}
