package mongolock

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
)

// Inspect implements driver.Store. It reads without waiting for anybody's
// transaction, one command for all keys; a second one only if a guarded lease is
// among them, to tell whether it is pinned.
func (s *Store) Inspect(ctx context.Context, keys []string) ([]driver.Info, error) {
	if err := s.enter(ctx, "inspect", len(keys)); err != nil {
		return nil, err
	}
	rows, err := s.rows(ctx, keys, nil)
	if err != nil {
		return nil, s.fail(ctx, "inspect", err)
	}
	infos := make([]driver.Info, len(keys))
	for i, k := range keys {
		infos[i] = rows[k].info(k)
	}
	if err := s.markPinned(ctx, infos, rows); err != nil {
		return nil, s.fail(ctx, "inspect", err)
	}
	return infos, nil
}

// rows reads the documents of keys. With a moment in time it reads what the
// majority has, not before that moment.
func (s *Store) rows(ctx context.Context, keys []string, after *bson.Timestamp) (map[string]row, error) {
	cmd := bson.D{
		{Key: "find", Value: s.leases},
		{Key: "filter", Value: byKeys(keys)},
		{Key: "projection", Value: fields},
		{Key: "batchSize", Value: int32(len(keys))},
		{Key: "singleBatch", Value: true},
	}
	if after != nil {
		cmd = append(cmd, majorityAfter(after))
	}
	reply, err := s.read(ctx, cmd)
	docs, err := documentsOf(cmd, reply, err)
	if err != nil {
		return nil, err
	}
	at := operationTime(reply)
	rows := make(map[string]row, len(docs))
	for _, doc := range docs {
		r := parse(doc)
		r.at = at
		rows[r.key] = r
	}
	return rows, nil
}

// majorityAfter is the read concern for what the majority has, not before a moment.
func majorityAfter(moment *bson.Timestamp) bson.E {
	return bson.E{Key: "readConcern", Value: bson.D{{Key: "level", Value: "majority"}, {Key: "afterClusterTime", Value: *moment}}}
}

// markPinned looks whether the grants of guarded leases have passed their fence.
func (s *Store) markPinned(ctx context.Context, infos []driver.Info, rows map[string]row) error {
	var keys []string
	for _, i := range infos {
		if r := rows[i.Key]; r.fenced && r.held() {
			keys = append(keys, i.Key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	docs, err := s.documents(ctx, bson.D{
		{Key: "find", Value: s.fences},
		{Key: "filter", Value: byKeys(keys)},
		{Key: "projection", Value: op("token", 1)},
		{Key: "batchSize", Value: int32(len(keys))},
		{Key: "singleBatch", Value: true},
	})
	if err != nil {
		return err
	}
	fences := make(map[string]int64, len(docs))
	for _, doc := range docs {
		f := parse(doc)
		fences[f.key] = f.token
	}
	for i := range infos {
		if r := rows[infos[i].Key]; r.fenced && r.held() {
			infos[i].Pinned = fences[infos[i].Key] < r.token
		}
	}
	return nil
}

func byKeys(keys []string) bson.D {
	if len(keys) == 1 {
		return op("_id", keyID(keys[0]))
	}
	ids := make(bson.A, len(keys))
	for i, k := range keys {
		ids[i] = keyID(k)
	}
	return op("_id", op("$in", ids))
}
