package line

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/storekit"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// Line is the tickets in one collection. It is safe for concurrent use.
type Line struct {
	cmd        *command.Runner
	collection string
}

// New is for the tickets in a collection of the Runner's database.
func New(cmd *command.Runner, collection string) *Line { return &Line{cmd, collection} }

// wait is how long an idle server may take for tickets, which no transaction ever keeps.
const wait = 250 * time.Millisecond

// keep is how long after its end a ticket is still read: its client wants to know its place.
const keep = time.Minute

// ticketID is the _id of a ticket.
func ticketID(key string, id driver.HoldID) bson.D {
	return bson.D{{Key: "k", Value: document.KeyID(key)}, {Key: "t", Value: document.HoldID(id)}}
}

// ofKey matches all tickets of a key: documents are compared field by field, and one that is
// the beginning of another is less.
func ofKey(key string) bson.D {
	k := bson.E{Key: "k", Value: document.KeyID(key)}
	return document.Op("_id", bson.D{{Key: "$gt", Value: bson.D{k}}, {Key: "$lt", Value: bson.D{k, {Key: "t", Value: bson.MaxKey{}}}}})
}

// put is the statement that puts or renews a ticket. A renewal keeps the place that is there.
func put(q driver.Ticket) bson.D {
	seq := any(document.Op("$multiply", bson.A{document.Op("$toLong", document.Now), int64(1000)}))
	if q.Seq != 0 {
		seq = document.Op("$ifNull", bson.A{"$seq", q.Seq})
	}
	return bson.D{
		{Key: "q", Value: document.Op("_id", ticketID(q.Key, q.ID))},
		{Key: "u", Value: bson.A{document.Op("$set", bson.D{
			{Key: "seq", Value: seq},
			{Key: "expiresAt", Value: document.Op("$add", bson.A{document.Now, document.Millis(driver.TicketTime)})},
		})}},
		{Key: "upsert", Value: true},
	}
}

// Put is driver.Tickets': one update and one find.
func (l *Line) Put(ctx context.Context, tickets []driver.Ticket) ([]driver.Place, error) {
	updates := bson.A{}
	for _, q := range tickets {
		updates = append(updates, put(q))
	}
	_, err := l.cmd.Write(ctx, nil, bson.D{{Key: "update", Value: l.collection}, {Key: "updates", Value: updates}, {Key: "ordered", Value: false}}, wait)
	if err != nil {
		return nil, l.cmd.Fail(ctx, "put tickets", err)
	}
	lines, err := l.read(ctx, keysOf(tickets))
	if err != nil {
		return nil, l.cmd.Fail(ctx, "put tickets", err)
	}
	places := make([]driver.Place, len(tickets))
	for i, q := range tickets {
		for _, t := range lines[q.Key] {
			if t.id == q.ID {
				q.Seq = t.seq
			}
		}
		if q.Seq == 0 {
			return nil, l.cmd.Fail(ctx, "put tickets", fmt.Errorf("the ticket of %q is not there after it was put", q.Key))
		}
		places[i] = placeOf(q, lines[q.Key])
	}
	return places, nil
}

// Places says what stands before tickets. It reads only.
func (l *Line) Places(ctx context.Context, tickets []driver.Ticket) ([]driver.Place, error) {
	lines, err := l.read(ctx, keysOf(tickets))
	if err != nil {
		failed := l.cmd.Fail(ctx, "look for tickets", err)
		failed.NotApplied = true
		return nil, failed
	}
	places := make([]driver.Place, len(tickets))
	for i, q := range tickets {
		places[i] = placeOf(q, lines[q.Key])
	}
	return places, nil
}

func keysOf(tickets []driver.Ticket) []string {
	keys := make([]string, len(tickets))
	for i, q := range tickets {
		keys[i] = q.Key
	}
	return keys
}

// Remove is driver.Tickets'. A ticket whose place is another by now is the next one, and stays.
func (l *Line) Remove(ctx context.Context, tickets []driver.Ticket) error {
	deletes := bson.A{}
	for _, q := range tickets {
		deletes = append(deletes, bson.D{
			{Key: "q", Value: bson.D{{Key: "_id", Value: ticketID(q.Key, q.ID)}, {Key: "seq", Value: q.Seq}}},
			{Key: "limit", Value: 1},
		})
	}
	if _, err := l.delete(ctx, deletes); err != nil {
		return l.cmd.Fail(ctx, "remove tickets", err)
	}
	return nil
}

func (l *Line) delete(ctx context.Context, deletes bson.A) (int, error) {
	if len(deletes) == 0 {
		return 0, nil
	}
	reply, err := l.cmd.Write(ctx, nil, bson.D{{Key: "delete", Value: l.collection}, {Key: "deletes", Value: deletes}, {Key: "ordered", Value: false}}, wait)
	return int(reply.Matched()), err
}

// Lines is driver.Tickets'.
func (l *Line) Lines(ctx context.Context, keys []string) ([]driver.Line, error) {
	found, err := l.read(ctx, keys)
	if err != nil {
		return nil, l.cmd.Fail(ctx, "read tickets", err)
	}
	lines := make([]driver.Line, len(keys))
	for i, key := range keys {
		for _, t := range found[key] {
			if t.left <= 0 {
				continue
			}
			if since := time.UnixMicro(t.seq).UTC(); lines[i].Waiting == 0 || since.Before(lines[i].Since) {
				lines[i].Since = since
			}
			lines[i].Waiting++
		}
	}
	return lines, nil
}

// Inform adds to Infos who waits for their keys.
func (l *Line) Inform(ctx context.Context, infos ...*driver.Info) error {
	return storekit.Inform(ctx, l.Lines, infos...)
}

// ticket is what was read of one.
type ticket struct {
	id   driver.HoldID
	seq  int64
	left time.Duration // not above zero: it is over
}

// placeOf counts what stands before a ticket.
func placeOf(q driver.Ticket, line []ticket) driver.Place {
	p := driver.Place{Seq: q.Seq}
	seq := q.Seq
	if seq == 0 {
		seq = math.MaxInt64
	}
	for _, t := range line {
		if t.left > 0 && t.id != q.ID && cmp.Or(cmp.Compare(t.seq, seq), bytes.Compare(t.id[:], q.ID[:])) < 0 {
			p.Ahead, p.Left = p.Ahead+1, max(p.Left, min(t.left, driver.TicketTime))
		}
	}
	return p
}

// mostKeys bounds the keys of one find.
const mostKeys = 100

// read reads the tickets of keys.
func (l *Line) read(ctx context.Context, keys []string) (map[string][]ticket, error) {
	lines := make(map[string][]ticket, len(keys))
	for len(keys) > 0 {
		some := keys[:min(len(keys), mostKeys)]
		keys = keys[len(some):]
		ranges := bson.A{}
		for _, key := range some {
			ranges = append(ranges, ofKey(key))
		}
		docs, err := l.cmd.Documents(ctx, bson.D{
			{Key: "find", Value: l.collection},
			{Key: "filter", Value: bson.D{
				{Key: "$or", Value: ranges},
				{Key: "$expr", Value: document.Op("$gt", bson.A{"$expiresAt", document.Op("$subtract", bson.A{document.Now, document.Millis(keep)})})},
			}},
			{Key: "projection", Value: bson.D{
				{Key: "seq", Value: 1},
				{Key: "left", Value: document.Op("$subtract", bson.A{"$expiresAt", document.Now})},
			}},
			{Key: "batchSize", Value: int32(math.MaxInt32)},
			{Key: "singleBatch", Value: true},
		})
		if err != nil {
			return nil, err
		}
		for _, doc := range docs {
			if key, t, ok := parse(doc); ok {
				lines[key] = append(lines[key], t)
			}
		}
	}
	return lines, nil
}

// parse reads a ticket; false: somebody else wrote it.
func parse(doc bson.Raw) (key string, t ticket, ok bool) {
	id, _ := doc.Lookup("_id").DocumentOK()
	_, k, hasKey := id.Lookup("k").BinaryOK()
	_, own, hasID := id.Lookup("t").BinaryOK()
	seq, hasSeq := doc.Lookup("seq").AsInt64OK()
	left, hasLeft := doc.Lookup("left").AsInt64OK()
	if !hasKey || !hasID || !hasSeq || !hasLeft || len(own) != len(t.id) {
		return "", t, false
	}
	copy(t.id[:], own)
	t.seq, t.left = seq, time.Duration(max(min(left, 1<<40), -1<<40))*time.Millisecond
	return string(k), t, true
}

// Reap removes tickets that have been over for longer than the grace, at most n of them. Until
// then one may be renewed.
func (l *Line) Reap(ctx context.Context, grace time.Duration, n int) (removed int, err error) {
	over := document.Op("$expr", document.Op("$lt", bson.A{"$expiresAt", document.Op("$subtract", bson.A{document.Now, document.Millis(grace)})}))
	docs, err := l.cmd.Scan(ctx, bson.D{
		{Key: "find", Value: l.collection},
		{Key: "filter", Value: append(document.Op("expiresAt", document.Op("$type", "date")), over...)},
		{Key: "projection", Value: document.Op("_id", 1)},
		{Key: "hint", Value: document.ByID},
		{Key: "limit", Value: int32(n)},
		{Key: "batchSize", Value: int32(n)},
		{Key: "singleBatch", Value: true},
	})
	if err != nil {
		return 0, l.cmd.Fail(ctx, "reap tickets", err)
	}
	deletes := bson.A{}
	for _, doc := range docs {
		deletes = append(deletes, bson.D{{Key: "q", Value: append(document.Op("_id", doc.Lookup("_id")), over...)}, {Key: "limit", Value: 1}})
	}
	removed, err = l.delete(ctx, deletes)
	if err != nil {
		return removed, l.cmd.Fail(ctx, "reap tickets", err)
	}
	return removed, nil
}
