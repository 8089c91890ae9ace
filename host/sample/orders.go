// Package sample is what `sluice dev` shows Sluice with: a stream of made-up
// orders, a table and an HTTP service for them to land in, and a look at what
// arrived. Nothing of it is used by `sluice run`.
package sample

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"
)

// Topic is where the sample orders go.
const Topic = "orders"

// timeFormat has one length for all times.
const timeFormat = "2006-01-02T15:04:05.000000Z"

// Order is one sample order.
type Order struct {
	ID        int64       `json:"id"`
	Customer  string      `json:"customer"`
	Item      string      `json:"item"`
	Quantity  int         `json:"quantity"`
	Price     json.Number `json:"price"`
	UpdatedAt string      `json:"updated_at"` // RFC 3339 with microseconds, so that texts sort as times do.
}

// String describes the order in a line.
func (o Order) String() string {
	return fmt.Sprintf("order %d: %d x %s for %s, %s each", o.ID, o.Quantity, o.Item, o.Customer, o.Price)
}

var (
	customers = []string{"Ada", "Grace", "Edsger", "Barbara", "Leslie", "Frances", "Tony", "Radia"}
	items     = []string{"tea", "coffee", "a kettle", "twelve lemons", "a teapot", "honey", "oat biscuits"}
)

// Stream produces an order every interval, with ids from 1, until ctx ends.
func Stream(ctx context.Context, interval time.Duration, produce func(ctx context.Context, key, value []byte) error) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for id := int64(1); ; id++ {
		o := Order{
			ID: id, Customer: customers[rand.N(len(customers))], Item: items[rand.N(len(items))],
			Quantity: 1 + rand.N(5), Price: json.Number(fmt.Sprintf("%d.%02d", 1+rand.N(40), rand.N(100))),
			UpdatedAt: time.Now().UTC().Format(timeFormat),
		}
		value, err := json.Marshal(o)
		if err != nil {
			return fmt.Errorf("encode order: %w", err)
		}
		if err := produce(ctx, fmt.Append(nil, id), value); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
