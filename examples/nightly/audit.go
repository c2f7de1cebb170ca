package main

import (
	"context"
	"fmt"
)

// books is what the bank's tables say after the night.
type books struct {
	Accounts, Once, More, Never int
	Expected, Sum               int64  // of all accounts, in cents
	Example                     string // an account with more than one posting, and who made them
}

// wrong is empty if every account has its interest exactly once.
func (b books) wrong() string {
	switch {
	case b.More > 0:
		return fmt.Sprintf("%d accounts have their interest more than once", b.More)
	case b.Never > 0:
		return fmt.Sprintf("%d accounts have no interest", b.Never)
	case b.Once != b.Accounts:
		return fmt.Sprintf("%d of %d accounts have their interest", b.Once, b.Accounts)
	case b.Sum != b.Expected:
		return fmt.Sprintf("the accounts have %s, not %s", money(b.Sum), money(b.Expected))
	}
	return ""
}

// audit counts the postings of each of n accounts.
func (b *bank) audit(ctx context.Context, n int, expected int64) (books, error) {
	r := books{Accounts: n, Expected: expected}
	err := b.db.QueryRowContext(ctx, "SELECT SUM(n = 1), SUM(n > 1), SUM(n = 0), SUM(balance) FROM (SELECT a.balance, COUNT(p.id) AS n FROM "+
		b.accounts+" a LEFT JOIN "+b.postings+" p ON p.account = a.id GROUP BY a.id, a.balance) AS counted").Scan(&r.Once, &r.More, &r.Never, &r.Sum)
	if err != nil {
		return r, fmt.Errorf("count the postings: %w", err)
	}
	if r.More > 0 {
		err = b.db.QueryRowContext(ctx, "SELECT CONCAT('account ', account, ': ', GROUP_CONCAT(CONCAT(ROUND(cents / 100, 2), ' from pod ', pod, ' (token ', token, ')') ORDER BY id SEPARATOR ', ')) FROM "+
			b.postings+" GROUP BY account HAVING COUNT(*) > 1 ORDER BY account LIMIT 1").Scan(&r.Example)
	}
	return r, err
}

// money is an amount for people.
func money(cents int64) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) }
