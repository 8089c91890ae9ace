package jdbc

import (
	"fmt"
	"testing"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/data"
)

// BenchmarkPut writes batches of 500 rows of five columns, each batch durably, as an insert and as an upsert of rows that are
// new.
func BenchmarkPut(b *testing.B) {
	const size = 500
	for _, name := range []string{postgresPeer, mariadbPeer, sqlitePeer} {
		for _, mode := range []string{modeInsert, modeUpsert} {
			for _, poison := range []int{0, 1000} {
				if poison > 0 && mode == modeUpsert {
					continue
				}
				b.Run(fmt.Sprintf("%s/%s/poison=%d", name, mode, poison), func(b *testing.B) {
					p := newPeer(b, name)
					p.exec(b, "CREATE TABLE bench (id BIGINT PRIMARY KEY, name VARCHAR(100), amount DECIMAL(12,2), at VARCHAR(40), note VARCHAR(200))")
					settings := values{"table": "bench", "mode": mode}
					if mode == modeUpsert {
						settings["pk"] = key("value", "id")
					}
					s := p.start(b, settings)
					next := 0
					amount := data.DecimalValue(data.Decimal{})
					b.ReportAllocs()
					for b.Loop() {
						batch := make([]pluginapi.Record, size)
						for i := range batch {
							next++
							pairs := []any{"id", next, "name", "customer of some name", "amount", amount, "at", "2024-06-15T10:30:00Z", "note", "some longer text that somebody wrote about the order"}
							if poison > 0 && next%poison == 0 {
								pairs = append(pairs, "id", 1)
							}
							batch[i] = of(pairs...)
						}
						if _, err := s.Put(b.Context(), batch); err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(float64(next)/b.Elapsed().Seconds(), "rows/s")
				})
			}
		}
	}
}
