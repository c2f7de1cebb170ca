package fault

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/dev/testenv"
	"github.com/rowlock/rowlock/dev/verify/timed"
)

func diskFaults() []Fault {
	return []Fault{
		Fault{Name: "disk-full", Kinds: everywhere, Weight: 2, Uses: []string{server},
			What: "the server's disk is full: commits of MySQL and MariaDB hang and go on when there is room, or the server ends and is " +
				"started again; a mongod always ends (of a replica set the primary)",
			Expect: "everything: what was not acknowledged is unknown, what was is there; leases may be lost, with the signal. SelectForUpdate where " +
				"the server ends: the exception to P2"}.by(diskFull),
	}
}

func diskFull(ctx context.Context, s *scene) (string, error) {
	if !s.Server.Troubled() {
		return "", fmt.Errorf("its disk is the machine's: %w", errors.ErrUnsupported)
	}
	d := s.between(s.TTL/10, s.TTL*3/2)
	member := 0
	if s.Kind == testenv.Mongo3 {
		var err error
		if member, err = s.primary(ctx); err != nil {
			return "", err
		}
	}
	err := s.Server.FillDisk(true, member)
	timed.Rest(ctx, d)
	err = errors.Join(err, notWhole(s.Server.FillDisk(false, member)))
	heal, cancel := healing(ctx)
	defer cancel()
	what := fmt.Sprintf("member %d for %v", member, d)
	if !isMongo(s.Kind) {
		short, stop := context.WithTimeout(heal, 5*time.Second)
		defer stop()
		if s.well(short) == nil {
			return what, err
		}
		what += ", the server ended"
	}
	return what, errors.Join(err, notWhole(s.Server.Restart(heal, member)), notWhole(s.well(heal)))
}
