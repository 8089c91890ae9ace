package loader

import (
	"strings"
	"testing"
)

// A plugin writes a line without an end, terminal escapes and bytes that are no
// text: what comes after is logged, and nothing of it reaches a terminal as it
// was, also not by way of a crash's error (PLUG-05).
func TestControlCharactersAreEscaped(t *testing.T) {
	var log logBuffer
	o := newOutput(textLogger(&log))
	o.read(strings.NewReader(strings.Repeat("x", 5<<20) + "\n\x1b]0;title\x07\x1b[2J\xff\xfered\x9b31m\tend\r\nlast \u0085line"))
	last := o.last()
	if len(last) != 3 || last[1] != `\x1b]0;title\x07\x1b[2J`+"\ufffdred\ufffd31m\tend" || last[2] != `last \x85line` {
		t.Errorf("kept %.200q", last)
	}
	for _, line := range append(last, (&CrashError{Output: last}).Error(), log.String()) {
		if strings.ContainsAny(line, "\x1b\x07\u0085") {
			t.Errorf("control characters in %.200q", line)
		}
	}
	if n := len(log.String()); n > 2*maxLine {
		t.Errorf("%d bytes of log for a line of 5 MiB", n)
	}
}
