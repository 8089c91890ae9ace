package confirm

import (
	"fmt"
	"io"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

func TestNext(t *testing.T) {
	tests := []struct {
		name  string
		form  form
		err   error
		want  form
		wait  bool
		final bool
	}{
		{"uncertain waits and tries the same", form{}, io.EOF, form{}, true, false},
		{"uncertain alone stays alone", form{alone: true, Form: Form{Omit: Value}}, kerr.NotLeaderForPartition, form{alone: true, Form: Form{Omit: Value}}, true, false},
		{"not sent by someone else goes at once", form{}, errNotSent, form{}, false, false},
		{"batch too large: alone first", form{}, kerr.MessageTooLarge, form{alone: true}, false, false},
		{"larger than the client's limit: the broker shall say", form{}, fmt.Errorf("%w: larger", kerr.MessageTooLarge), form{alone: true}, false, false},
		{"too large alone: without its value", form{alone: true}, kerr.MessageTooLarge, form{alone: true, Form: Form{Omit: Value, MaxedBytes: 7}}, false, false},
		{"then without everything", form{alone: true, Form: Form{Omit: Value, MaxedBytes: 9}}, kerr.RecordListTooLarge, form{alone: true, Form: Form{Omit: All, MaxedBytes: 9}}, false, false},
		{"then not at all", form{alone: true, Form: Form{Omit: All}}, kerr.MessageTooLarge, form{alone: true, Form: Form{Omit: All}}, false, true},
		{"timestamp: alone first", form{}, kerr.InvalidTimestamp, form{alone: true}, false, false},
		{"timestamp alone: now", form{alone: true}, kerr.InvalidTimestamp, form{alone: true, Form: Form{Now: true}}, false, false},
		{"not even now", form{alone: true, Form: Form{Now: true}}, kerr.InvalidTimestamp, form{alone: true, Form: Form{Now: true}}, false, true},
		{"bad record: alone first", form{}, kerr.InvalidRecord, form{alone: true}, false, false},
		{"bad record alone", form{alone: true}, kerr.InvalidRecord, form{alone: true}, false, true},
		{"no right", form{}, kerr.TopicAuthorizationFailed, form{}, false, true},
		{"no topic", form{}, kerr.UnknownTopicOrPartition, form{}, false, true},
		{"closed", form{}, ErrClosed, form{}, false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, wait, final := tt.form.next(tt.err, 7, false)
			if got != tt.want || wait != tt.wait || final != tt.final {
				t.Errorf("got %+v, wait %t, final %t, want %+v, %t, %t", got, wait, final, tt.want, tt.wait, tt.final)
			}
		})
	}
}

func TestNothingIsLeftOutOfWhatIsToBeWhole(t *testing.T) {
	f := form{alone: true}
	if got, _, final := f.next(kerr.MessageTooLarge, 7, true); got != f || !final {
		t.Errorf("got %+v, final %t: want it refused", got, final)
	}
}
