package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rowlock/rowlock"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

// shop is the programs whose locks are in the pictures.
type shop struct {
	ctx     context.Context
	store   *mysqllock.Store
	clients []*rowlock.Client
	waiting sync.WaitGroup
	err     error
}

// program is one more.
func (s *shop) program(owner string) *rowlock.Client {
	c, err := rowlock.New(s.store, rowlock.Options{Owner: owner, ReapInterval: -1})
	if err != nil {
		s.err = errors.Join(s.err, err)
		return nil
	}
	s.clients = append(s.clients, c)
	return c
}

// take takes a key for a program.
func (s *shop) take(owner, key string, opts ...rowlock.Option) *rowlock.Lease {
	lease, err := s.program(owner).TryAcquire(s.ctx, key, opts...)
	s.err = errors.Join(s.err, err)
	return lease
}

// wait lets a program wait for a key until the shop is closed.
func (s *shop) wait(owner, key string, opts ...rowlock.Option) {
	c := s.program(owner)
	s.waiting.Go(func() { _, _ = c.Acquire(s.ctx, key, opts...) })
}

// open takes the locks, and lets enough time pass for the page to know who lives.
func (s *shop) open() error {
	s.take("billing-7c9f", "invoices/2026-11")
	s.wait("billing-1b22", "invoices/2026-11")
	s.take("pod-2", "nightly:interest")
	for _, pod := range []string{"pod-1", "pod-3"} {
		s.wait(pod, "nightly:interest", rowlock.Fair())
	}
	// A program that has died: it does not renew its lease.
	s.take("reports-4", "report/daily", rowlock.NoRenew(), rowlock.TTL(time.Minute))
	for _, owner := range []string{"web-1", "web-2", "web-3"} {
		s.take(owner, "catalog", rowlock.Shared())
	}
	s.take("images-1", "thumbnails", rowlock.Slots(4))
	s.take("images-2", "thumbnails", rowlock.Slots(4))
	kept, forced := s.take("mailer-2", "mail:digest", rowlock.MinHold(10*time.Minute)), s.take("search-1", "index/rebuild")
	ended := s.take("search-9", "index/old", rowlock.NoRenew(), rowlock.TTL(12*time.Second))
	if s.err != nil || ended == nil {
		return s.err
	}
	if err := kept.Release(s.ctx); err != nil {
		return err
	}
	time.Sleep(5 * time.Second)
	if _, err := s.store.ForceRelease(s.ctx, forced.Key()); err != nil {
		return err
	}
	time.Sleep(33 * time.Second)
	return nil
}

// close ends the programs. Those that wait have been told to stop.
func (s *shop) close() (err error) {
	s.waiting.Wait()
	for _, c := range s.clients {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		var lost *rowlock.LostError
		if e := c.Close(ctx); e != nil && !errors.As(e, &lost) {
			err = errors.Join(err, e)
		}
		cancel()
	}
	return err
}
