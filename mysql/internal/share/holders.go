package share

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// holders is who has a key in a phase.
type holders struct {
	row            row.Row // of the key: its name, hold and token only
	inPhase        bool    // else the rest says nothing
	gated          bool    // an exclusive request waits that keeps new ones out
	readers, slots int     // that live, or are kept by MinHold
	expired        int     // that were not ended
	freeSlot       int
	left           time.Duration // until the last of them ends
	owner          string        // of one of them
	since          int64         // when the oldest of them was granted, as a Unix time in microseconds
}

func (k holders) live() int { return k.readers + k.slots }

// holdersOf reads who has each of the keys. A plain read.
func (l *Table) holdersOf(ctx context.Context, c *conn.Conn, n int, key func(int) string) (map[string]holders, error) {
	return conn.InParts(0, n, func(from, to int) (map[string]holders, error) {
		found, err := conn.Query(ctx, c, 0, holdersText(l, to-from, func(i int) string { return key(from + i) }), l.scanHolders)
		if err != nil {
			return nil, err
		}
		byKey := make(map[string]holders, len(found))
		for _, k := range found {
			byKey[k.row.Key] = k
		}
		return byKey, nil
	})
}

// holdersText numbers the live holds of each key by their slots: where number and slot are
// equal no slot before is free, and readers stand behind all slots.
func holdersText(l *Table, n int, key func(int) string) string {
	t := conn.NewText(1500 + 128*n).Add("SELECT v.name,MAX(v.hold),MAX(v.token),MAX(COALESCE(v.phase=v.hold,0))," +
		"COALESCE(SUM(s.live AND s.slot>=" + firstReaderText + "),0),COALESCE(SUM(s.live AND s.slot<" + firstReaderText + "),0),COALESCE(SUM(NOT s.live),0)," +
		"COALESCE(SUM(s.live AND s.slot=s.place),0),COALESCE(MAX(s.micros),0),MAX(IF(s.live AND s.place=0,s.owner,NULL))," +
		"COALESCE(TIMESTAMPDIFF(MICROSECOND,'1970-01-01',MIN(IF(s.live,s.acquired_at,NULL))),0)")
	if l.gated() {
		t.Add(",MAX(" + gateStands + ")")
	} else {
		t.Add(",MAX(v.line)," + row.NowMicros)
	}
	t.Add(" FROM ", l.Name, " AS v FORCE INDEX (PRIMARY) LEFT JOIN (SELECT name,slot,owner,acquired_at,expires_at>"+row.Now+" AS live,TIMESTAMPDIFF(MICROSECOND,"+row.Now+",expires_at) AS micros,"+
		"ROW_NUMBER() OVER (PARTITION BY name ORDER BY expires_at<="+row.Now+",slot)-1 AS place FROM ", l.Share, " FORCE INDEX (PRIMARY) WHERE name IN ")
	t.In(n, func(i int) { t.Key(key(i)) }).Add(" AND (released_at IS NULL OR expires_at>" + row.Now + ")) AS s ON s.name=v.name WHERE v.name IN ")
	return t.In(n, func(i int) { t.Key(key(i)) }).Add(" GROUP BY v.name").String()
}

func (l *Table) scanHolders(rows *sql.Rows) (holders, error) {
	var k holders
	var name, id, owner, line sql.RawBytes
	var token, readers, slots, expired, free, left, since, now conn.Int
	columns := []any{&name, &id, &token, &k.inPhase, &readers, &slots, &expired, &free, &left, &owner, &since}
	if l.gated() {
		columns = append(columns, &k.gated)
	} else {
		columns = append(columns, &line, &now)
	}
	if err := rows.Scan(columns...); err != nil {
		return k, err
	}
	k.row = k.row.WithLine(line, now.N)
	k.gated = k.gated || k.row.Line().Exclusive()
	k.row.Key, k.row.Token, k.owner = string(name), token.N, string(owner)
	copy(k.row.ID[:], id)
	count := func(n conn.Int) int { return int(min(max(n.N, 0), 1<<30)) }
	k.readers, k.slots, k.expired, k.freeSlot = count(readers), count(slots), count(expired), count(free)
	k.left, k.since = max(conn.Micros(left.N), 0), since.N
	return k, nil
}

// inform adds what is known of a phase to the Info of its key.
func (k holders) inform(i *driver.Info) {
	if !k.inPhase { // somebody wrote the row by hand
		return
	}
	i.Held, i.Kept, i.Hold, i.Left, i.Owner = k.live() > 0, false, driver.HoldID{}, 0, ""
	if i.Held {
		i.Readers, i.Slots, i.FreeSlot, i.Gated, i.Left, i.Owner = k.readers, k.slots, k.freeSlot, k.gated, k.left, k.owner
		i.Since = time.UnixMicro(k.since).UTC()
	}
}

// Infos makes the Infos of keys of what was read of them, and of who has those that are in a phase, which it
// reads now. The phase may have ended since: such keys are read again, also for the caller.
func Infos[K row.Known](ctx context.Context, l *Table, c *conn.Conn, keys []string, found map[string]K, read func(keys []string) (map[string]K, error)) ([]driver.Info, error) {
	infos := make([]driver.Info, len(keys))
	places := make([]int, len(keys)) // of the keys that were read last
	for i := range keys {
		places[i] = i
	}
	for {
		places = slices.DeleteFunc(places, func(i int) bool {
			infos[i] = driver.Info{Key: keys[i]}
			k, ok := found[keys[i]]
			if ok {
				infos[i] = k.Info()
			}
			return !ok || !k.KeyRow().InPhase
		})
		if len(places) == 0 {
			return infos, nil
		}
		holders, err := l.holdersOf(ctx, c, len(places), func(n int) string { return keys[places[n]] })
		if err != nil {
			return nil, err
		}
		var ended []string
		places = slices.DeleteFunc(places, func(i int) bool {
			h := holders[keys[i]]
			if h.row.ID == found[keys[i]].KeyRow().ID {
				h.inform(&infos[i])
				return true
			}
			ended = append(ended, keys[i])
			return false
		})
		if len(places) == 0 {
			return infos, nil
		}
		again, err := read(ended)
		if err != nil {
			return nil, err
		}
		for _, k := range ended {
			delete(found, k)
		}
		maps.Copy(found, again)
	}
}
