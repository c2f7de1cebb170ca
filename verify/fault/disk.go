package fault

import (
	"context"
	"errors"
	"fmt"

	"github.com/rowlock/rowlock/testenv"
)

func diskFaults() []Fault {
	return []Fault{
		Fault{Name: "disk-full", Kinds: everywhere, Weight: 2, Uses: []string{server},
			What: "the server's disk is full: commits of MySQL and MariaDB hang and go on when there is room; a mongod ends and is started " +
				"again (of a replica set the primary)",
			Expect: "everything: what was not acknowledged is unknown, what was is there; leases may be lost, with the signal"}.by(diskFull),
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
	pause(ctx, d)
	err = errors.Join(err, notWhole(s.Server.FillDisk(false, member)))
	heal, cancel := healing(ctx)
	defer cancel()
	if isMongo(s.Kind) {
		err = errors.Join(err, notWhole(s.Server.Restart(heal, member)))
	}
	return fmt.Sprintf("member %d for %v", member, d), errors.Join(err, notWhole(s.well(heal)))
}
