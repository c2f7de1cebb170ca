package workload

import (
	"context"
	"fmt"
	"strings"

	"github.com/rowlock/rowlock/driver"
)

// Bugs are deliberate ones, to see that a round finds them.
var Bugs = []string{bugTTL, bugRelease, bugMark}

const (
	bugTTL     = "ttl"     // the database grants half the time that the client counts on
	bugRelease = "release" // a release ends whatever hold the key has
	bugMark    = "mark"    // a run is marked by another name each time
)

// broken puts a bug before a store.
func broken(bug string, s driver.Store) (driver.Store, error) {
	switch bug {
	case "", bugMark: // that one is of the worker
		return s, nil
	case bugTTL:
		return &halfTTL{s}, nil
	case bugRelease:
		f, ok := s.(driver.Forcer)
		if !ok {
			return nil, fmt.Errorf("a %T cannot force a release", s)
		}
		return &anyRelease{s, f}, nil
	}
	return nil, fmt.Errorf("no bug %q: use one of %s", bug, strings.Join(Bugs, ", "))
}

type halfTTL struct{ driver.Store }

func (s *halfTTL) Unwrap() driver.Store { return s.Store }

func (s *halfTTL) Acquire(ctx context.Context, reqs []driver.Request) ([]driver.Result, error) {
	for i := range reqs {
		reqs[i].TTL /= 2
	}
	return s.Store.Acquire(ctx, reqs)
}

func (s *halfTTL) Limits() driver.Limits { return plain(s.Store) }

type anyRelease struct {
	driver.Store
	force driver.Forcer
}

func (s *anyRelease) Unwrap() driver.Store { return s.Store }

func (s *anyRelease) Release(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	list := make([]driver.Result, len(holds))
	for i, h := range holds {
		if _, err := s.force.ForceRelease(ctx, h.Key); err != nil {
			list[i].Err = err
		} else {
			list[i].Status = driver.Released
		}
	}
	return list, nil
}

func (s *anyRelease) Limits() driver.Limits { return plain(s.Store) }

// plain is what is left of a store whose other abilities the wrapper hides.
func plain(s driver.Store) driver.Limits {
	l := s.Limits()
	l.Queue = false
	return l
}
