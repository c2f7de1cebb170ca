package mongolock

import (
	"context"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// Inspect is called by the Client that rowlock.New makes. It implements driver.Store. It reads without waiting for anybody's
// transaction, one command for all keys; a second one only if a guarded lease is
// among them, to find out whether it is pinned, and one if a phase is, to count its holds.
func (s *Store) Inspect(ctx context.Context, keys []string) ([]driver.Info, error) {
	if err := s.enter(ctx, "inspect", len(keys)); err != nil {
		return nil, err
	}
	states, err := s.statesInPhases(ctx, keys)
	if err != nil {
		return nil, s.cmd.Fail(ctx, "inspect", err)
	}
	infos := make([]driver.Info, len(keys))
	for i, k := range keys {
		infos[i] = states[k].Info(k)
	}
	if err := s.markPinned(ctx, infos, states); err != nil {
		return nil, s.cmd.Fail(ctx, "inspect", err)
	}
	return infos, nil
}

// markPinned looks whether the grants of guarded leases have passed their fence.
func (s *Store) markPinned(ctx context.Context, infos []driver.Info, states map[string]document.State) error {
	var keys []string
	for _, i := range infos {
		if r := states[i.Key]; r.Fenced && r.Held() {
			keys = append(keys, i.Key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	fences, err := s.fence.Tokens(ctx, keys)
	if err != nil {
		return err
	}
	for i := range infos {
		if r := states[infos[i].Key]; r.Fenced && r.Held() {
			token := r.Token
			if r.Phase > 0 {
				token = r.Phase
			}
			infos[i].Pinned = fences[infos[i].Key] < token
		}
	}
	return nil
}
