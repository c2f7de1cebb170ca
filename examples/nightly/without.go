package main

import (
	"context"
	"database/sql"
	"errors"

	"github.com/rowlock/rowlock"
)

// postWithout is the same night without Once and without the guard, written with
// care: a chunk is one transaction, the checkpoint that says how far the night has
// come is written in it, and right before it the pod looks whether it still has the
// lock. What is missing cannot be written by hand: a pod that stands still after
// that look goes on later as if nothing had happened.
func (p *pod) postWithout(ctx context.Context, lease *rowlock.Lease) error {
	p.report(event{Kind: began})
	done, err := p.bank.done(ctx)
	if err != nil {
		return err
	}
	for _, c := range p.Chunks[:done] {
		p.report(event{Kind: already, Chunk: c.Number})
	}
	for _, c := range p.Chunks[done:] {
		if err := lease.Err(); err != nil {
			return err
		}
		// The transaction has the process's context, as code has that was there before
		// the lock. With ctx, which ends with the lease, most of these pods would notice
		// in time. Not all: the commit may be on its way already when the lease ends.
		if err := p.bank.postPlain(p.ctx, c, lease); err != nil {
			return err
		}
		p.report(event{Kind: posted, Chunk: c.Number})
	}
	return nil
}

// done is how many chunks are posted, as the checkpoint says.
func (b *bank) done(ctx context.Context) (n int, err error) {
	err = b.db.QueryRowContext(ctx, "SELECT chunks FROM "+b.checkpoint).Scan(&n)
	return n, err
}

func (b *bank) postPlain(ctx context.Context, c chunk, lease *rowlock.Lease) (err error) {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			if e := tx.Rollback(); !errors.Is(e, sql.ErrTxDone) {
				err = errors.Join(err, e)
			}
		}
	}()
	if err := b.post(ctx, tx, c, lease); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "UPDATE "+b.checkpoint+" SET chunks = ?", c.Number); err != nil {
		return err
	}
	return tx.Commit()
}
