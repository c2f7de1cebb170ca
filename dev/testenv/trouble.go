package testenv

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"
)

//go:embed trouble/trouble.c
var troubleSource []byte

// errNoTrouble is the answer to a fault on a server that is not prepared for it.
var errNoTrouble = errors.New("its clock, its disk and its network are the machine's: see StartTroubled")

// StartTroubled is [Start] of a server whose clock can be set, whose disk can be full, and whose members can be cut off
// from each other: see [Server.SetClock], [Server.FillDisk] and [Server.CutOff]. For that it must be a process of this
// machine, and a library is preloaded into it, which is compiled into the cache with gcc; where that cannot be the error
// matches [ErrUnavailable].
func StartTroubled(ctx context.Context, kind Kind, args ...string) (*Server, error) {
	return start(ctx, kind, order{args: args, trouble: true})
}

// Troubled reports whether SetClock, FillDisk and CutOff work.
func (s *Server) Troubled() bool {
	for _, n := range s.nodes {
		if local, ok := n.(*localNode); !ok || local.trouble == "" {
			return false
		}
	}
	return len(s.nodes) > 0
}

// SetClock makes the wall clock of the named members, or of all, differ from the machine's by so much, until the next
// SetClock, also over a restart. Their clock that only goes on is left alone. A wait that has begun ends as if the clock
// had not been set.
func (s *Server) SetClock(ahead time.Duration, members ...int) error {
	return s.each("set the clock of", members, func(n node) error { return tell(n, aheadAt, int64(ahead)) })
}

// FillDisk makes the disk of the named members, or of all, full (ENOSPC), until it is undone. Files of MySQL and MariaDB
// cannot grow then: commits hang, because the binary log waits for room, and go on when there is some. What mongod would
// next need room for comes up to a minute later, so it cannot write at all: it ends, and needs a Restart.
func (s *Server) FillDisk(full bool, members ...int) error {
	how := int64(0)
	if full {
		how = 1
		if s.kind.isMongo() {
			how = 2
		}
	}
	return s.each("fill the disk of", members, func(n node) error { return tell(n, fullAt, how) })
}

// CutOff cuts one member of a replica set or of a cluster off from the others, until it is undone: connections between
// them fail, and cannot be made. Clients reach all of them, as they do where only the network between the servers is
// broken. One member at a time can be cut off.
func (s *Server) CutOff(off bool, member int) error {
	if member < 0 || member >= len(s.nodes) || len(s.nodes) > cutPorts+1 {
		return fmt.Errorf("cut off member %d of %d", member, len(s.nodes))
	}
	var errs []error
	for i, n := range s.nodes {
		at := int64(cutAt)
		for j, other := range s.nodes {
			if i == j || i != member && j != member {
				continue
			}
			port := int64(0)
			if local, ok := other.(*localNode); ok && off {
				port = int64(cmp.Or(local.peer, local.port))
			}
			errs = append(errs, tell(n, at, port))
			at += 8
		}
	}
	return errors.Join(errs...)
}

// Where the values are in the file that the library reads.
const (
	aheadAt     = 0
	fullAt      = 8
	cutAt       = 16
	cutPorts    = 2
	troubleSize = cutAt + 8*cutPorts
)

func tell(n node, at int64, value int64) error {
	local, ok := n.(*localNode)
	if !ok || local.trouble == "" {
		return errNoTrouble
	}
	f, err := os.OpenFile(local.trouble, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(value)), at)
	return errors.Join(err, f.Close())
}

// troubleFile makes the file that the library reads: no trouble yet.
func troubleFile(file string) error { return os.WriteFile(file, make([]byte, troubleSize), 0o644) }

// troubleLibrary is the library that a server must preload.
func troubleLibrary() (string, error) {
	library, err := compiled("trouble", troubleSource)
	if err != nil {
		return "", fmt.Errorf("%w: a clock and a disk of a server's own: %w", ErrUnavailable, err)
	}
	return library, nil
}
