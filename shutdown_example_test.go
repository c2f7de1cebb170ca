package rowlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rowlock/rowlock"
)

// serve runs a web server and a job under a lock, until SIGTERM. Its caller closes the store after it.
func serve(ctx context.Context, server *http.Server, locks *rowlock.Client, job func(context.Context, *rowlock.Lease) error) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	done := make(chan error, 1)
	go func() {
		done <- rowlock.Lead(ctx, locks, "worker", job)
		stop() // it cannot begin, or the job has ended: the program ends, too
	}()
	go func() {
		if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			log.Print(err)
			stop()
		}
	}()

	<-ctx.Done() // SIGTERM: waiters leave, the contexts of jobs end
	ending, cancel := context.WithTimeout(context.Background(), 25*time.Second)
	defer cancel()
	err := server.Shutdown(ending)              // no new requests; those that run may finish
	err = errors.Join(err, locks.Close(ending)) // waits for the functions of Do, Lead and Every; releases the rest
	if worked := <-done; !errors.Is(worked, context.Canceled) {
		err = errors.Join(err, worked)
	}
	return err
}

// A program that ends in good order: its keys stay held until its work has ended.
func ExampleClient_Close_server() {
	locks := newLocks()
	server := &http.Server{Addr: "127.0.0.1:0"}
	program, sigterm := context.WithCancel(context.Background())
	err := serve(program, server, locks, func(ctx context.Context, _ *rowlock.Lease) error {
		sigterm()
		<-ctx.Done()
		fmt.Println("the work ends")
		return nil
	})
	fmt.Println("error:", err)
	// Output:
	// the work ends
	// error: <nil>
}
