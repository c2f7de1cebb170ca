package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/dev/verify/timed"
)

func memberFaults() []Fault {
	return []Fault{
		Fault{Name: "primary-stepped-down", Kinds: mongo3, Weight: 3, Uses: []string{server},
			What:   "the primary is told to step down, another is elected",
			Expect: "everything; what was under way may fail or be unknown for a moment; leases may be lost, with the signal. Tokens go on rising (P3)"}.by(primarySteppedDown),
		Fault{Name: "primary-killed", Kinds: replicated, Weight: 3, Uses: []string{server},
			What: "the primary is killed with -9, another is elected, or promoted; it comes back (on MongoDB it becomes primary again)",
			Expect: "everything: what was acknowledged is not forgotten; what was under way may fail or be unknown, leases may be lost, with the signal. " +
				"SelectForUpdate: keys that were used within the last TTL can be had after it"}.by(primaryKilled),
		Fault{Name: "primary-frozen", Kinds: replicated, Weight: 3, Uses: []string{server},
			What:   "the primary stands still for longer than an election, and wakes up believing that it is the primary",
			Expect: "everything, as with primary-killed: its writes reach no majority, or no replica. Its Inspect may be old for a moment"}.by(primaryFrozen),
		Fault{Name: "primary-cut-off", Kinds: replicated, Weight: 3, Uses: []string{server},
			What: "the network between the primary and the other members is broken, for longer than an election; clients reach all of them, the old " +
				"primary and the new",
			Expect: "everything: what the old primary takes meanwhile reaches no majority and is rolled back; nothing that was acknowledged rests on it. " +
				"Leases may be lost, with the signal. Its Inspect may be old for a moment"}.by(primaryCutOff),
		Fault{Name: "secondary-killed", Kinds: replicated, Weight: 1, Uses: []string{server},
			What:   "a secondary is killed with -9 and comes back",
			Expect: "everything, and nothing is slower"}.by(secondaryKilled),
	}
}

// primary is the number of the member that takes writes.
func (s *scene) primary(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if s.Kind.Clustered() {
		return s.primaryOfCluster(ctx)
	}
	members, err := addresses(s.Server)
	if err != nil {
		return 0, err
	}
	for {
		var hello struct{ Primary string }
		err := s.Mongo.Database("admin").RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&hello)
		if i := slices.Index(members, hello.Primary); err == nil && i >= 0 {
			return i, nil
		}
		if ctx.Err() != nil {
			return 0, fmt.Errorf("no primary: %w", errors.Join(ctx.Err(), err))
		}
		timed.Rest(ctx, 20*time.Millisecond)
	}
}

func primarySteppedDown(ctx context.Context, s *scene) (string, error) {
	old, err := s.primary(ctx)
	if err != nil {
		return "", err
	}
	stay := 2 + s.rand.IntN(3) // seconds in which it may not be elected again
	// Its connection may end before the answer comes: whether it happened is seen below.
	_ = s.Mongo.Database("admin").RunCommand(ctx, bson.D{{Key: "replSetStepDown", Value: stay}, {Key: "secondaryCatchUpPeriodSecs", Value: 1},
		{Key: "force", Value: true}}).Err()
	heal, cancel := healing(ctx)
	defer cancel()
	if err := notWhole(s.well(heal)); err != nil {
		return "", err
	}
	now, err := s.primary(heal)
	return fmt.Sprintf("member %d, then member %d was primary", old, now), err
}

func primaryKilled(ctx context.Context, s *scene) (string, error) {
	old, err := s.primary(ctx)
	if err != nil {
		return "", err
	}
	if s.Kind.Clustered() {
		return s.replaced(ctx, old, s.Server.Kill)
	}
	d := s.between(s.TTL/4, 2*s.TTL)
	err = s.killFor(ctx, d, old)
	return fmt.Sprintf("member %d, down for %v", old, d), err
}

// pastAnElection is how long a primary of a replica set is away: for longer than the others take to elect another.
func (s *scene) pastAnElection() time.Duration {
	return s.between(max(s.TTL/2, 1500*time.Millisecond), max(2*s.TTL, 3*time.Second))
}

func primaryFrozen(ctx context.Context, s *scene) (string, error) {
	old, err := s.primary(ctx)
	if err != nil {
		return "", err
	}
	if s.Kind.Clustered() {
		return s.replaced(ctx, old, s.Server.Pause)
	}
	d := s.pastAnElection()
	err = s.freezeFor(ctx, d, old)
	return fmt.Sprintf("member %d for %v", old, d), err
}

func primaryCutOff(ctx context.Context, s *scene) (string, error) {
	if !s.Server.Troubled() {
		return "", fmt.Errorf("its network is the machine's: %w", errors.ErrUnsupported)
	}
	old, err := s.primary(ctx)
	if err != nil {
		return "", err
	}
	if s.Kind.Clustered() {
		return s.cutOff(ctx, old)
	}
	d := s.pastAnElection()
	if err = s.Server.CutOff(true, old); err == nil {
		timed.Rest(ctx, d)
	}
	joined := s.Server.CutOff(false, old)
	return fmt.Sprintf("member %d for %v", old, d), errors.Join(err, notWhole(joined), s.wellAgain(ctx))
}

func secondaryKilled(ctx context.Context, s *scene) (string, error) {
	first, err := s.primary(ctx)
	if err != nil {
		return "", err
	}
	member := (first + 1 + s.rand.IntN(2)) % 3
	d := s.between(0, 2*s.TTL)
	if s.Kind.Clustered() {
		err = s.Server.Kill(member)
		timed.Rest(ctx, d)
		heal, cancel := healing(ctx)
		defer cancel()
		err = errors.Join(err, notWhole(s.Server.Rejoin(heal, member)), notWhole(s.well(heal)))
	} else {
		err = s.killFor(ctx, d, member)
	}
	return fmt.Sprintf("member %d, down for %v", member, d), err
}
