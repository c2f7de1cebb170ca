package round

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rowlock/rowlock/dev/verify/fault"
	"github.com/rowlock/rowlock/dev/verify/history"
	"github.com/rowlock/rowlock/dev/verify/timed"
	"github.com/rowlock/rowlock/dev/verify/workload"
)

// pulseEvery is the longest time between two pulses of the supervisor.
const pulseEvery = 200 * time.Millisecond

// Config is what a round is to be.
type Config struct {
	Seed     uint64
	Duration time.Duration // of the work with faults; coming to rest and judging take longer
	Faults   []fault.Fault // may be none
	Lines    int           // how many faults at once, at most
	Gap      time.Duration // between two faults of one line, at most
	Peace    time.Duration // without faults in the end, beside what it takes until all is had again
	TTL      time.Duration
	Hot      int    // see workload.Task
	Light    int    //
	Modes    int    //
	Break    string //
	Other    string // another build of this program, that plays the second client; empty: none
	Out      string // where the folders of rounds are made
	Keep     bool   // also the folder of a clean round
	Command  string // that runs this round again
}

// Run runs one round and judges it. The error says that the round could not be run or
// judged, not that it found something.
func Run(ctx context.Context, l *Lab, c Config) (r Result, err error) {
	r.Seed, r.Kind, r.Begin = c.Seed, l.Env.Kind, time.Now()
	r.Folder = filepath.Join(c.Out, fmt.Sprintf("%s-%x-%s", l.Env.Kind, c.Seed, r.Begin.Format("150405")))
	if err := os.MkdirAll(r.Folder, 0o755); err != nil {
		return r, err
	}
	if err := record(ctx, l, c, &r); err != nil { // which a server that is broken may explain
		return r, fmt.Errorf("%s round %x: %w (its history: %s)", l.Env.Kind, c.Seed, errors.Join(r.Broken, err), r.Folder)
	}
	if err := r.judge(); err != nil {
		return r, err
	}
	if len(r.Violations) == 0 && !c.Keep {
		return r, os.RemoveAll(r.Folder)
	}
	return r, nil
}

// record is the part of the round that makes its history.
func record(ctx context.Context, l *Lab, c Config, r *Result) (err error) {
	prefix := fmt.Sprintf("%x.%s", c.Seed, r.Begin.Format("150405.000"))
	keys := workload.SharedKeys(prefix)
	meta := history.Meta{Seed: int64(c.Seed), Command: c.Command, Started: r.Begin, Begin: history.Now(), Spaces: map[string]history.Space{}}
	for _, space := range l.Spaces {
		meta.Spaces[space] = history.Space{Server: l.Server(), Strategy: space, TTL: c.TTL}
	}
	if err := history.WriteMeta(r.Folder, meta); err != nil {
		return err
	}
	if err := l.direct.Registers(ctx, keys); err != nil {
		return err
	}
	rec, err := history.Create(r.Folder, "supervisor")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rec.Close()) }()
	crew, err := workload.Start(Clients, rec, func(slot int) workload.Task { return l.task(slot, c, r.Folder, prefix) })
	if err != nil {
		return err
	}
	l.ready(keys, c.TTL, crew.Clients)

	watching, unwatch := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for watching.Err() == nil {
			_ = l.direct.Tune(watching)
			_ = l.direct.Observe(watching, rec, keys) // recorded too
			timed.Rest(watching, 300*time.Millisecond)
		}
	}()
	pulsing, unpulse := context.WithCancel(ctx)
	pulsed := make(chan struct{})
	go func() {
		defer close(pulsed)
		l.direct.Pulses(pulsing, rec, min(c.TTL/10, pulseEvery))
	}()
	working := time.Now()
	busy, rest := context.WithTimeout(ctx, c.Duration)
	in := &injector{env: l.Env, faults: c.Faults, rec: rec, gap: c.Gap}
	r.Broken = in.run(busy, c.Seed, c.Lines)
	r.NotRun = in.dropped
	rest()
	timed.Rest(ctx, c.TTL+c.TTL/2+c.Peace) // what was lost is had again, and everybody gets a turn
	r.Seconds = time.Since(working).Seconds()
	err = crew.Stop(4*c.TTL + 10*time.Second)
	timed.Rest(ctx, c.TTL+c.TTL/4) // what nobody could release ends by itself
	unwatch()
	<-watched
	all := slices.Clone(keys)
	for _, name := range crew.Names() {
		all = append(append(all, workload.LightKeys(prefix, name)...), workload.KeptKey(prefix, name))
	}
	var observed error
	if err == nil && ctx.Err() == nil {
		observed = timed.Persist(ctx, func() error { return l.direct.Observe(ctx, rec, all) })
	}
	unpulse() // what is left is judged by whether the server was well until then
	<-pulsed
	for _, e := range cuts(l.Env.Server.Cuts(), r.Begin) {
		rec.Add(e)
	}
	if err = errors.Join(err, ctx.Err()); err != nil {
		return err
	}
	if observed != nil {
		return fmt.Errorf("observe the end: %w", observed)
	}
	if err := l.direct.Ledgers(ctx, rec, keys); err != nil {
		return err
	}
	effects := slices.Clone(keys)
	for _, space := range l.Spaces {
		effects = append(effects, workload.TxKeys(prefix, space)...)
	}
	if err := l.direct.Effects(ctx, rec, effects); err != nil {
		return err
	}
	meta.End = history.Now()
	return history.WriteMeta(r.Folder, meta)
}
