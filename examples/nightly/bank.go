package main

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/examples/internal/servers"
)

// bank is the bank's own data, in the database where the locks are. Nothing in
// its tables keeps a posting from being made twice: that is what the night is
// about.
type bank struct {
	db                             *sql.DB
	accounts, postings, checkpoint string // tables
	pod                            int    // who works with it
}

func openBank(server servers.Server, space string, pod int) (*bank, error) {
	db, err := server.SQL(4)
	if err != nil {
		return nil, err
	}
	return &bank{db: db, accounts: space + "_account", postings: space + "_posting", checkpoint: space + "_checkpoint", pod: pod}, nil
}

// interest is what one account gets for one night, in cents.
func interest(balance int64) int64 { return balance / 1000 }

// fill makes the tables and n accounts, and returns what all accounts together
// must have after the night.
func (b *bank) fill(ctx context.Context, n int) (expected int64, err error) {
	for _, statement := range []string{
		"CREATE TABLE " + b.accounts + " (id INT PRIMARY KEY, balance BIGINT NOT NULL)",
		"CREATE TABLE " + b.postings + " (id BIGINT AUTO_INCREMENT PRIMARY KEY, account INT NOT NULL, cents BIGINT NOT NULL, pod INT NOT NULL, token BIGINT NOT NULL, KEY (account))",
		"CREATE TABLE " + b.checkpoint + " (chunks INT NOT NULL)", // only for -without
		"INSERT INTO " + b.checkpoint + " VALUES (0)",
	} {
		if _, err := b.db.ExecContext(ctx, statement); err != nil {
			return 0, fmt.Errorf("open the bank: %w", err)
		}
	}
	const batch = 1000
	for first := 1; first <= n; first += batch {
		var rows []string
		for id := first; id < min(first+batch, n+1); id++ {
			balance := int64(100_000 + id*7919%900_000)
			expected += balance + interest(balance)
			rows = append(rows, fmt.Sprintf("(%d,%d)", id, balance))
		}
		if _, err := b.db.ExecContext(ctx, "INSERT INTO "+b.accounts+" VALUES "+strings.Join(rows, ",")); err != nil {
			return 0, fmt.Errorf("open the accounts: %w", err)
		}
	}
	return expected, nil
}

// chunk is some of the accounts. Its run ID says which chunk of which night it is.
type chunk struct {
	Number      int // from 1
	First, Last int // accounts
	Run         string
}

func chunks(night string, accounts, size int) (list []chunk) {
	for first := 1; first <= accounts; first += size {
		n := len(list) + 1
		list = append(list, chunk{Number: n, First: first, Last: min(first+size-1, accounts), Run: fmt.Sprintf("%s/chunk-%03d", night, n)})
	}
	return list
}

// post posts the interest of a chunk's accounts, one after the other.
func (b *bank) post(ctx context.Context, tx *sql.Tx, c chunk, lease *rowlock.Lease) error {
	balances, err := b.balances(ctx, tx, c)
	if err != nil {
		return err
	}
	add, err := tx.PrepareContext(ctx, "UPDATE "+b.accounts+" SET balance = balance + ? WHERE id = ?")
	if err != nil {
		return err
	}
	defer add.Close()
	note, err := tx.PrepareContext(ctx, "INSERT INTO "+b.postings+" (account, cents, pod, token) VALUES (?, ?, ?, ?)")
	if err != nil {
		return err
	}
	defer note.Close()
	for i, balance := range balances {
		account, cents := c.First+i, interest(balance)
		if _, err := add.ExecContext(ctx, cents, account); err != nil {
			return err
		}
		if _, err := note.ExecContext(ctx, account, cents, b.pod, lease.Token()); err != nil {
			return err
		}
	}
	return nil
}

func (b *bank) balances(ctx context.Context, tx *sql.Tx, c chunk) (list []int64, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT balance FROM "+b.accounts+" WHERE id BETWEEN ? AND ? ORDER BY id", c.First, c.Last)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var balance int64
		if err := rows.Scan(&balance); err != nil {
			return nil, err
		}
		list = append(list, balance)
	}
	return list, rows.Err()
}
