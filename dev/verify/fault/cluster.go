package fault

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rowlock/rowlock/dev/testenv"
	"github.com/rowlock/rowlock/dev/verify/timed"
)

func clusterFaults() []Fault {
	return []Fault{
		Fault{Name: "primary-switched", Kinds: clusters, Weight: 3, Uses: []string{server},
			What:   "another member is made the primary, as planned; connections to the one before are cut for some processes, and left open for others",
			Expect: "everything; what was under way may fail for a moment, leases are kept where their TTL outlasts the switch"}.by(primarySwitched),
		Fault{Name: "successor-frozen", Kinds: replicated, Weight: 1, Uses: []string{server},
			What:   "the primary freezes and comes back, and as soon as it is there the one that took its place freezes",
			Expect: "everything, as with primary-frozen"}.by(successorFrozen),
		Fault{Name: "successor-clock-off", Kinds: clusters, Weight: 1, Uses: []string{server, Clock},
			What: "the clock of a member is ahead or behind by more than the margin, up to half a TTL, and it becomes the primary; its clock is right " +
				"again after a while",
			Expect: "as with clock-stepped-little: P2 is not promised where it is ahead, nor tokens of UniqueInsert where it is behind"}.by(successorClockOff),
		Fault{Name: "replicas-behind", Kinds: slices.Concat(clusters, lossy), Weight: 2, Uses: []string{server},
			What: "the replicas receive nothing (groups and Galera: apply nothing) for up to a second, then the primary is killed, and the one that " +
				"received most is promoted",
			Expect: "semi-synchronous: everything, because nothing was acknowledged meanwhile. Groups and Galera: everything; the next primary applies " +
				"what it has first. Asynchronous: nothing, and rounds must find the loss"}.by(replicasBehind),
	}
}

// primaryOfCluster is the member that takes writes.
func (s *scene) primaryOfCluster(ctx context.Context) (int, error) {
	for {
		at, err := s.Server.Primary(ctx)
		if err != nil || at >= 0 {
			return at, err
		}
		if ctx.Err() != nil {
			return 0, fmt.Errorf("no member takes writes: %w", ctx.Err())
		}
		timed.Rest(ctx, 20*time.Millisecond)
	}
}

// replaced breaks a member that takes writes, waits until another does, and brings it back after a while.
func (s *scene) replaced(ctx context.Context, old int, breaks func(...int) error) (string, error) {
	if err := breaks(old); err != nil {
		return "", notWhole(err)
	}
	heal, cancel := healing(ctx)
	defer cancel()
	begin := time.Now()
	now, err := s.Server.Promote(heal)
	took := time.Since(begin).Round(time.Millisecond)
	d := s.between(0, 2*s.TTL)
	timed.Rest(ctx, d)
	heal, again := healing(ctx) // what it took to replace it has no part of it
	defer again()
	err = errors.Join(notWhole(err), notWhole(s.Server.Rejoin(heal, old)), notWhole(s.well(heal)))
	return fmt.Sprintf("member %d, then after %v member %d takes writes; the first is away for %v more", old, took, now, d), err
}

func primarySwitched(ctx context.Context, s *scene) (string, error) {
	old, err := s.primary(ctx)
	if err != nil {
		return "", err
	}
	heal, cancel := healing(ctx)
	defer cancel()
	to := (old + 1 + s.rand.IntN(s.Server.Members()-1)) % s.Server.Members()
	begin := time.Now()
	err = s.Server.Switch(heal, to)
	took := time.Since(begin).Round(time.Millisecond)
	return fmt.Sprintf("from member %d to member %d in %v", old, to, took), errors.Join(notWhole(err), notWhole(s.well(heal)))
}

// cutOff cuts the member that takes writes off from the others, which replace it.
func (s *scene) cutOff(ctx context.Context, old int) (string, error) {
	if err := s.Server.CutOff(true, old); err != nil {
		return "", notWhole(err)
	}
	begin := time.Now()
	now, err := s.successor(ctx, old)
	took := time.Since(begin).Round(time.Millisecond)
	d := s.between(0, 2*s.TTL)
	timed.Rest(ctx, d)
	joined := s.Server.CutOff(false, old)
	heal, cancel := healing(ctx) // the wait for a successor has no part of it
	defer cancel()
	whole := errors.Join(notWhole(joined), notWhole(s.Server.Rejoin(heal, old)), notWhole(s.well(heal)))
	return fmt.Sprintf("member %d, then after %v member %d takes writes; the first is away for %v more", old, took, now, d), errors.Join(err, whole)
}

// successor waits until another than the member that is cut off takes writes.
func (s *scene) successor(ctx context.Context, old int) (now int, err error) {
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), 45*time.Second)
	defer cancel()
	for {
		now, err = s.Server.Promote(wait)
		if err != nil || now != old {
			return now, err
		}
		if wait.Err() != nil {
			return now, fmt.Errorf("member %d still takes writes: %w", old, wait.Err())
		}
		timed.Rest(wait, 20*time.Millisecond) // the others have not noticed yet
	}
}

func successorFrozen(ctx context.Context, s *scene) (string, error) {
	first, err := s.primary(ctx)
	if err != nil {
		return "", err
	}
	if !s.Kind.Clustered() {
		return s.frozenInTurn(ctx, first)
	}
	one, err := s.replaced(ctx, first, s.Server.Pause)
	if err != nil {
		return one, err
	}
	heal, cancel := healing(ctx)
	defer cancel()
	next, err := s.primary(heal)
	if err != nil {
		return one, err
	}
	other, err := s.replaced(ctx, next, s.Server.Pause)
	return one + "; " + other, err
}

// frozenInTurn is successorFrozen of a set that elects by itself.
func (s *scene) frozenInTurn(ctx context.Context, first int) (string, error) {
	if err := s.Server.Pause(first); err != nil {
		return "", notWhole(err)
	}
	heal, cancel := healing(ctx)
	defer cancel()
	err := s.well(heal) // another takes writes
	next, named := s.primary(heal)
	resumed := s.Server.Resume(first)
	if err := errors.Join(err, named, notWhole(resumed)); err != nil {
		return "", errors.Join(err, s.wellAgain(ctx))
	}
	d := s.pastAnElection()
	err = s.freezeFor(ctx, d, next)
	return fmt.Sprintf("member %d until member %d took writes, then that for %v", first, next, d), err
}

func successorClockOff(ctx context.Context, s *scene) (string, error) {
	if !s.Server.Troubled() {
		return "", fmt.Errorf("its clock is the machine's: %w", errors.ErrUnsupported)
	}
	old, err := s.primary(ctx)
	if err != nil {
		return "", err
	}
	step := s.between(s.TTL*11/100, s.TTL/2)
	if s.rand.IntN(2) == 0 {
		step = -step
	}
	heal, cancel := healing(ctx)
	defer cancel()
	to := (old + 1) % s.Server.Members()
	err = s.Server.SetClock(step, to)
	if err == nil {
		err = s.Server.Switch(heal, to)
		timed.Rest(ctx, s.while())
	}
	right := s.Server.SetClock(0)
	return fmt.Sprintf("member %d by %v", to, step), errors.Join(err, notWhole(right), notWhole(s.well(heal)))
}

func replicasBehind(ctx context.Context, s *scene) (string, error) {
	old, err := s.primary(ctx)
	if err != nil {
		return "", err
	}
	d := s.between(200*time.Millisecond, time.Second)
	goOn, err := s.holdBack(ctx, old)
	timed.Rest(ctx, d)
	what, replaced := s.replaced(ctx, old, func(members ...int) error {
		return errors.Join(s.Server.Kill(members...), goOn())
	})
	return fmt.Sprintf("for %v; %s", d, what), errors.Join(notWhole(err), replaced)
}

// holdBack keeps all but one member from receiving what it does or, where that would cost them their place in the cluster, from
// applying it, until goOn. Those that receive nothing do so until they follow another.
func (s *scene) holdBack(ctx context.Context, primary int) (goOn func() error, err error) {
	wait, cancel := healing(ctx)
	defer cancel()
	var locks []*sql.DB
	for i, dsn := range s.Server.MemberDSNs() {
		switch {
		case i == primary:
		case s.Kind == testenv.MySQLGroup3 || s.Kind == testenv.MariaDBGalera3:
			db, opened := openSQL(dsn)
			if opened != nil {
				err = errors.Join(err, opened)
				continue
			}
			db.SetMaxOpenConns(1) // the session that has the lock
			locks = append(locks, db)
			_, locked := db.ExecContext(wait, "FLUSH TABLES WITH READ LOCK")
			err = errors.Join(err, locked)
		default:
			err = errors.Join(err, once(wait, dsn, "STOP REPLICA IO_THREAD"))
		}
	}
	return func() (err error) {
		for _, db := range locks {
			err = errors.Join(err, db.Close())
		}
		return err
	}, err
}

// once executes a statement on a member.
func once(ctx context.Context, dsn, statement string) error {
	db, err := openSQL(dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, statement)
	return err
}
