package main

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// books is what the warehouse's data says at the end.
type books struct {
	Orders, Once, More, Never int
	Ordered, Shipped          int // units
	CameIn, Left              int // units, of all products
	Disagree                  int // products whose stock is not what the ledger says
	Negative                  int // products of which there is less than nothing
}

// audit adds the ledger up.
func (w *warehouse) audit(ctx context.Context, orders, units int) (b books, err error) {
	b = books{Orders: orders, Ordered: units}
	found, err := w.ledger.Find(ctx, bson.D{})
	if err != nil {
		return b, fmt.Errorf("read the ledger: %w", err)
	}
	var lines []movement
	if err := found.All(ctx, &lines); err != nil {
		return b, fmt.Errorf("read the ledger: %w", err)
	}
	found, err = w.stock.Find(ctx, bson.D{})
	if err != nil {
		return b, fmt.Errorf("read the stock: %w", err)
	}
	var stock []product
	if err := found.All(ctx, &stock); err != nil {
		return b, fmt.Errorf("read the stock: %w", err)
	}
	b.add(lines, stock)
	return b, nil
}

func (b *books) add(lines []movement, stock []product) {
	times, sums := map[int]int{}, map[int]int{}
	for _, l := range lines {
		sums[l.Product] += l.Units
		if l.Order == 0 {
			b.CameIn += l.Units
			continue
		}
		times[l.Order]++
		b.Shipped -= l.Units
	}
	for order := 1; order <= b.Orders; order++ {
		switch times[order] {
		case 0:
			b.Never++
		case 1:
			b.Once++
		default:
			b.More++
		}
	}
	for _, p := range stock {
		b.Left += p.Left
		if p.Left != sums[p.ID] {
			b.Disagree++
		}
		if p.Left < 0 {
			b.Negative++
		}
	}
}

// wrong lists what is not as it must be.
func (b *books) wrong() (list []error) {
	check := func(right bool, format string, args ...any) {
		if !right {
			list = append(list, fmt.Errorf(format, args...))
		}
	}
	check(b.More == 0, "%d orders are fulfilled more than once", b.More)
	check(b.Never == 0, "%d orders are not fulfilled", b.Never)
	check(b.Shipped == b.Ordered, "%d units were ordered, %d went out", b.Ordered, b.Shipped)
	check(b.Left == b.CameIn-b.Shipped, "%d units came in and %d went out, but %d are left", b.CameIn, b.Shipped, b.Left)
	check(b.Disagree == 0, "of %d products the stock is not what the ledger says", b.Disagree)
	check(b.Negative == 0, "of %d products there is less than nothing", b.Negative)
	return list
}
