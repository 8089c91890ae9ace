package intent

import (
	"errors"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

func genRanges(t *rapid.T, most int64) []Range {
	var out []Range
	at := int64(0)
	for range rapid.IntRange(1, 4).Draw(t, "ranges") {
		at += rapid.Int64Range(0, most).Draw(t, "gap")
		r := Range{First: at, Last: at + rapid.Int64Range(0, most).Draw(t, "length")}
		out, at = append(out, r), r.Last+1
	}
	return out
}

func TestClaimRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := &Claim{
			ID: rapid.StringMatching(`[A-Z0-9]{26}`).Draw(t, "id"), Writer: rapid.StringN(1, 40, 200).Draw(t, "writer"),
			Source: Source{TopicID: [16]byte{1, 15: 2}, Partition: rapid.Int32Range(0, 1<<30).Draw(t, "partition")},
			Ranges: genRanges(t, 1<<40), Of: rapid.Int32Range(1, 1000).Draw(t, "of"),
		}
		got, err := ParseClaim(want.Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	})
}

func TestWhatIsNoClaim(t *testing.T) {
	const id = `"topic_id":"000102030405060708090a0b0c0d0e0f"`
	for name, value := range map[string]string{
		"nothing":         ``,
		"another version": `{"v":2,"id":"a","writer":"w",` + id + `,"partition":0,"of":1,"offsets":[[0,1]]}`,
		"no id":           `{"v":1,"writer":"w",` + id + `,"partition":0,"of":1,"offsets":[[0,1]]}`,
		"no writer":       `{"v":1,"id":"a",` + id + `,"partition":0,"of":1,"offsets":[[0,1]]}`,
		"a short topic":   `{"v":1,"id":"a","writer":"w","topic_id":"00","partition":0,"of":1,"offsets":[[0,1]]}`,
		"no offsets":      `{"v":1,"id":"a","writer":"w",` + id + `,"partition":0,"of":1,"offsets":[]}`,
		"backwards":       `{"v":1,"id":"a","writer":"w",` + id + `,"partition":0,"of":1,"offsets":[[2,1]]}`,
		"out of order":    `{"v":1,"id":"a","writer":"w",` + id + `,"partition":0,"of":1,"offsets":[[2,3],[0,1]]}`,
		"twice the same":  `{"v":1,"id":"a","writer":"w",` + id + `,"partition":0,"of":1,"offsets":[[2,3],[3,4]]}`,
		"of nothing":      `{"v":1,"id":"a","writer":"w",` + id + `,"partition":0,"of":0,"offsets":[[0,1]]}`,
	} {
		if c, err := ParseClaim([]byte(value)); !errors.Is(err, ErrClaim) {
			t.Errorf("%s: got %+v, %v", name, c, err)
		}
	}
}

func FuzzParseClaim(f *testing.F) {
	f.Add((&Claim{ID: "a", Writer: "b", Ranges: []Range{{0, 3}, {7, 7}}, Of: 3}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := ParseClaim(b)
		if err != nil {
			if !errors.Is(err, ErrClaim) {
				t.Errorf("got %v", err)
			}
			return
		}
		again, err := ParseClaim(c.Append(nil))
		if err != nil || !reflect.DeepEqual(again, c) {
			t.Errorf("got %+v, %v, want %+v", again, err, c)
		}
	})
}
