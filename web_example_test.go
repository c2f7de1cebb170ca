package rowlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"github.com/rowlock/rowlock"
)

// checkout pays for a cart, which one request at a time may do.
func checkout(locks rowlock.Locker, pay func(ctx context.Context, lease *rowlock.Lease, cart string) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		cart := r.PathValue("cart")
		waiting, cancel := context.WithTimeout(r.Context(), 2*time.Second) // bounds the wait, not the hold
		defer cancel()
		lease, err := locks.Acquire(waiting, "cart/"+cart, rowlock.TTL(10*time.Second))
		if err != nil {
			refuse(w, err)
			return
		}
		defer lease.Release(r.Context()) // works on a request that has ended, too
		if err := pay(lease.Context(r.Context()), lease, cart); err != nil {
			refuse(w, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

// refuse answers a request that did not get its lock, or lost it.
func refuse(w http.ResponseWriter, err error) {
	var held *rowlock.HeldError
	switch {
	case errors.As(err, &held): // also where the wait was too long for its deadline
		w.Header().Set("Retry-After", "1")
		http.Error(w, "another request for this cart is running", http.StatusConflict)
	case errors.Is(err, rowlock.ErrInvalid): // for example a key that is too long
		http.Error(w, "no such cart", http.StatusBadRequest)
	case errors.Is(err, context.Canceled): // the client has gone, or the program ends
		http.Error(w, "stopped", http.StatusServiceUnavailable)
	default: // the lock was lost, or the database does not answer
		log.Print(err)
		http.Error(w, "try again", http.StatusServiceUnavailable)
	}
}

// A request that finds the cart locked is told so, and not kept waiting.
func ExampleClient_Acquire_webRequest() {
	locks := newLocks()
	defer locks.Close(context.Background())
	mux := http.NewServeMux()
	mux.HandleFunc("POST /carts/{cart}/checkout", checkout(locks, func(context.Context, *rowlock.Lease, string) error { return nil }))
	post := func(path string) {
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, path, nil))
		fmt.Println(path, answer.Code)
	}

	other, err := locks.Acquire(context.Background(), "cart/7") // another request
	if err != nil {
		log.Fatal(err)
	}
	defer other.Release(context.Background())
	post("/carts/3/checkout")
	post("/carts/7/checkout")
	// Output:
	// /carts/3/checkout 204
	// /carts/7/checkout 409
}

// export answers at once: somebody who asks twice has the first export.
func export(locks rowlock.Locker, write func(context.Context, http.ResponseWriter) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := rowlock.Do(r.Context(), locks, "export", func(ctx context.Context, _ *rowlock.Lease) error {
			return write(ctx, w)
		}, rowlock.NoWait(), rowlock.Owner(r.Header.Get("X-Request-Id")))
		var held *rowlock.HeldError
		if errors.As(err, &held) {
			w.Header().Set("Retry-After", strconv.Itoa(1+int(held.Left.Seconds())))
			http.Error(w, "the export of request "+held.Owner+" is running", http.StatusConflict)
		} else if err != nil {
			refuse(w, err)
		}
	}
}

// Who tries once, with NoWait, can be told at once who is at it.
func ExampleNoWait() {
	locks := newLocks()
	defer locks.Close(context.Background())
	inside := export(locks, func(context.Context, http.ResponseWriter) error { return nil })
	request := func(id string) *http.Request {
		r := httptest.NewRequest(http.MethodGet, "/export", nil)
		r.Header.Set("X-Request-Id", id)
		return r
	}
	outer := export(locks, func(context.Context, http.ResponseWriter) error {
		answer := httptest.NewRecorder()
		inside(answer, request("b2")) // another request, while this one is at it
		fmt.Print(answer.Code, " ", answer.Body)
		return nil
	})
	answer := httptest.NewRecorder()
	outer(answer, request("a1"))
	fmt.Println(answer.Code)
	// Output:
	// 409 the export of request a1 is running
	// 200
}
