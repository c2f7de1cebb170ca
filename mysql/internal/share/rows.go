package share

import (
	"context"
	"database/sql"
	"encoding/binary"
	"strconv"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// A reader or slot is a row of the share table, by the key and a number: a slot's is its
// own, a reader's is made of its hold ID, and at least firstReader. The state of a row:
//
//	held                     released_at NULL, expires_at ahead
//	expired                  released_at NULL, expires_at past: may still be renewed, and keeps
//	                         exclusive attempts out until one of them ends it (bury)
//	a slot kept by MinHold   released_at set,  expires_at ahead
//	ended                    released_at set,  expires_at never; by whom: the release of a slot,
//	                         a burial (phase is 0), force (the hold is zero)
//
// The release of a reader deletes its row. That of a slot stays, with the slot's last token.
//
// A reader's token is that of the phase, in the column phase. In the index of guards its
// entry stands behind those of all slots: MariaDB's guards of slots lock the gap before an
// entry too, at REPEATABLE READ, and tokens of slots only rise.
const (
	firstReader = uint64(1) << 63

	// aSlot, of a row: it is a slot's.
	aSlot = "slot<" + firstReaderText
)

// readerSlot is the number of a reader.
func readerSlot(id *driver.HoldID) uint64 { return binary.BigEndian.Uint64(id[:8]) | firstReader }

// slotOf is the number of a hold of Mode Shared or Slot.
func slotOf(h *driver.Hold) uint64 {
	if h.Mode == driver.Shared {
		return readerSlot(&h.ID)
	}
	return uint64(max(h.Slot, 0))
}

// place names a row of the share table.
type place struct {
	key  string
	slot uint64
}

// add adds the place as (name,slot).
func (p place) add(t *conn.Text) { t.Add("(").Key(p.key).Add(",").Uint(p.slot).Add(")") }

// name is the place as one string, for maps that have keys too.
func (p place) name() string {
	return string(binary.BigEndian.AppendUint64([]byte(p.key), p.slot))
}

// scanPlace reads name and slot.
func scanPlace(rows *sql.Rows) (p place, err error) {
	var key sql.RawBytes
	err = rows.Scan(&key, &p.slot)
	p.key = string(key)
	return p, err
}

// ShareRow is a row of the share table.
type ShareRow struct {
	row.Row
	Slot    uint64
	Phase   int64         // the token of its phase; 0: the hold was ended by a burial
	Stands  bool          // the key is in that phase
	PhaseID driver.HoldID // the hold of the key's row: the phase's, where that stands
}

// Touch writes a reader of a key that there cannot be, this program's own: it shows whether a commit goes through. No guard locks a
// gap of the index in which a reader's entry is.
func (l *Table) Touch() string {
	return conn.NewText(300).Add("INSERT INTO ", l.Share, " (name,slot,hold,owner,token,phase,acquired_at,expires_at,released_at) VALUES ('',").Uint(readerSlot(&l.self)).
		Add("," + row.NoHold + ",''," + readerToken + ",0," + row.Now + "," + row.Epoch + "," + row.Now + ") ON DUPLICATE KEY UPDATE released_at=VALUES(released_at)").String()
}

// shareColumns are those of scanShare: of the row s, and of the key's row v.
const shareColumns = "SELECT s.name,s.hold,s.owner,IF(s." + aSlot + ",s.token,s.phase),TIMESTAMPDIFF(MICROSECOND," + row.Now + ",s.expires_at),s.released_at IS NULL," +
	"TIMESTAMPDIFF(MICROSECOND,'1970-01-01',s.acquired_at)," + row.NowMicros + ",s.slot,s.phase,COALESCE(v.phase=v.hold AND v.token=s.phase,0),v.hold FROM "

// shareRows reads rows of the share table. A plain read.
func (l *Table) shareRows(ctx context.Context, c *conn.Conn, n int, at func(int) place) (map[string]ShareRow, error) {
	return conn.InParts(0, n, func(from, to int) (map[string]ShareRow, error) {
		found, err := conn.Query(ctx, c, 0, shareRowsText(l, to-from, func(i int) place { return at(from + i) }), scanShare)
		if err != nil {
			return nil, err
		}
		rows := make(map[string]ShareRow, len(found))
		for _, r := range found {
			rows[place{r.Key, r.Slot}.name()] = r
		}
		return rows, nil
	})
}

func shareRowsText(l *Table, n int, at func(int) place) string {
	t := conn.NewText(700 + 100*n).Part(l.shareFrom).Add(" WHERE (s.name,s.slot) IN ")
	return t.In(n, func(i int) { t.Part(at(i).add) }).String()
}

// shareFrom begins a question for rows of the share table.
func (l *Table) shareFrom(t *conn.Text) {
	t.Add(shareColumns, l.Share, " AS s FORCE INDEX (PRIMARY) LEFT JOIN ", l.Name, " AS v FORCE INDEX (PRIMARY) ON v.name=s.name")
}

func scanShare(rows *sql.Rows) (ShareRow, error) {
	var s row.Scan
	var slot, id sql.RawBytes
	var phase conn.Int
	var r ShareRow
	if err := rows.Scan(append(s.Columns(), &slot, &phase, &r.Stands, &id)...); err != nil {
		return ShareRow{}, err
	}
	r.Row, r.Phase = s.Row(), phase.N
	r.Slot, _ = strconv.ParseUint(string(slot), 10, 64) // the column has no other values
	copy(r.PhaseID[:], id)
	if r.Corrupt == "" && (phase.Off || phase.N < 0 || phase.N > driver.MaxToken) {
		r.Corrupt = "the phase is out of range"
	}
	return r, nil
}

// whereShare names live holds by their places and hold IDs.
func whereShare(holds []driver.Hold) conn.Statement {
	return func(t *conn.Text) {
		if len(holds) == 1 {
			t.Add(" WHERE name=").Key(holds[0].Key).Add(" AND slot=").Uint(slotOf(&holds[0])).Add(" AND hold=").Bytes(holds[0].ID[:]).Add(" AND released_at IS NULL")
			return
		}
		t.Add(" WHERE (name,slot) IN ").In(len(holds), func(i int) { t.Part(place{holds[i].Key, slotOf(&holds[i])}.add) })
		t.Add(" AND (name,slot,hold) IN ").In(len(holds), func(i int) {
			t.Add("(").Key(holds[i].Key).Add(",").Uint(slotOf(&holds[i])).Add(",").Bytes(holds[i].ID[:]).Add(")")
		})
		t.Add(" AND released_at IS NULL")
	}
}

// bury ends the holds of a key that have expired, for an exclusive attempt. A renewal that
// comes later finds nothing; one that came before is seen here.
func bury(l *Table, key string) conn.Statement {
	return func(t *conn.Text) {
		t.Part(row.Update(l.Share)).Add("phase=0,released_at=" + row.Now + ",expires_at=" + row.Epoch + " WHERE name=").Key(key).
			Add(" AND released_at IS NULL AND " + row.Free)
	}
}

// ForcedShares ends the holds of a key that are of no phase that stands.
func ForcedShares(l *Table, key string) conn.Statement {
	return func(t *conn.Text) {
		t.Part(row.Update(l.Share)).Add("hold="+row.NoHold+",released_at="+row.Now+",expires_at="+row.Epoch+" WHERE name=").Key(key).
			Add(" AND (released_at IS NULL OR expires_at>"+row.Now+") AND phase<(SELECT v.token FROM ", l.Name, " AS v FORCE INDEX (PRIMARY) WHERE v.name=").Key(key).Add(")")
	}
}

// AboveShares adds a token above those of a key's slots, unless one was written by hand that
// leaves no room above it: that nobody was granted. It belongs into the SET of an UPDATE of the key's row, which the server
// evaluates when it has that row locked.
func AboveShares(l *Table, key string) conn.Statement {
	return func(t *conn.Text) {
		t.Add("COALESCE((SELECT "+row.TokenRange+"+MAX(s.token) FROM ", l.Share, " AS s FORCE INDEX (PRIMARY) WHERE s.name=").Key(key).Add(" AND s." + aSlot + " AND s.token<=" + mostSlotToken + "),0)")
	}
}
