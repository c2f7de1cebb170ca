package command

import (
	"context"
	"errors"
	"fmt"
)

// A Store uses a few connections of its client's pool, however many callers, keys and
// leases there are. It has places for workPlaces commands of acquires, probes and all that
// an operator asks, and for priorityPlaces of renewals, releases and undos, which wait for
// none of the former. Of these releases and undos have at most releasePlaces: those of documents
// that a foreign transaction has written take their time, and renewals must not wait for them.
// Beside them there is one connection for the change stream of observers, and one for each running InTx or Once. Of the workPlaces acquires of pinned keys have at most
// pinnedPlaces: they send many commands, and nobody else waits for them. While a command is
// overdue the question of silence.go uses more connections, for a second.
const (
	workPlaces     = 8
	priorityPlaces = 4
	releasePlaces  = 3
	PinnedPlaces   = 3

	// MaxCommands is what the Store has under way at once, at most.
	MaxCommands = workPlaces + priorityPlaces + 1
)

// With few connections (Options.FewConnections) there is one place of each kind: beside them there is the change stream while
// a caller observes, and a transaction while a key is held. A key's renewal and its release exclude each other.
const fewPlaces = 1

// FewConnections has the Runner use few connections. It is called before the first command.
func (r *Runner) FewConnections() { r.places = newPlaces(fewPlaces) }

// places are those of the commands that are under way.
type places struct{ work, priority, releases, pinned chan struct{} }

// newPlaces makes at most so many of each kind.
func newPlaces(most int) places {
	return places{
		work: make(chan struct{}, min(workPlaces, most)), priority: make(chan struct{}, min(priorityPlaces, most)),
		releases: make(chan struct{}, min(releasePlaces, most)), pinned: make(chan struct{}, min(PinnedPlaces, most)),
	}
}

type placesKey struct{}

// ForRenewals marks the context of renewals.
func ForRenewals(ctx context.Context) context.Context {
	return context.WithValue(ctx, placesKey{}, func(p places) []chan struct{} { return []chan struct{}{p.priority} })
}

// ForReleases marks the context of releases and undos.
func ForReleases(ctx context.Context) context.Context {
	return context.WithValue(ctx, placesKey{}, func(p places) []chan struct{} { return []chan struct{}{p.releases, p.priority} })
}

// ForPinned marks the context of acquires of pinned keys.
func ForPinned(ctx context.Context) context.Context {
	return context.WithValue(ctx, placesKey{}, func(p places) []chan struct{} { return []chan struct{}{p.pinned, p.work} })
}

var errNoPlace = errors.New("waiting for a place among the Store's commands")

// enter takes a place for one command, and returns how to give it back.
func (p places) enter(ctx context.Context) (leave func(), err error) {
	needed := []chan struct{}{p.work}
	if of, ok := ctx.Value(placesKey{}).(func(places) []chan struct{}); ok {
		needed = of(p)
	}
	taken := 0
	leave = func() {
		for _, place := range needed[:taken] {
			<-place
		}
	}
	for _, place := range needed {
		select {
		case place <- struct{}{}:
			taken++
		case <-ctx.Done():
			leave()
			return nil, fmt.Errorf("%w: %w", errNoPlace, ctx.Err())
		}
	}
	return leave, nil
}
