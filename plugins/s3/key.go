package s3

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/template"
)

// maxKey is the longest key of an object, in bytes.
const maxKey = 1024

// keyTemplate makes an object's folder from a record.
type keyTemplate struct{ parts []keyPart }

// keyPart is a piece of the template. A slash in a date's layout was written by the author of the template and cuts levels;
// one that any other placeholder fills in does not.
type keyPart struct {
	text  *template.Template
	plain bool
}

func parseKey(text string) (*keyTemplate, error) {
	if _, err := template.Parse(text); err != nil {
		return nil, err // Its place is counted in the whole text.
	}
	k := new(keyTemplate)
	add := func(text string, plain bool) error {
		if text == "" {
			return nil
		}
		t, err := template.Parse(text)
		k.parts = append(k.parts, keyPart{t, plain})
		return err
	}
	start := 0
	for i := 0; i < len(text); {
		switch {
		case strings.HasPrefix(text[i:], "{{"):
			i += 2
		case strings.HasPrefix(text[i:], "{timestamp"):
			end := i + strings.IndexByte(text[i:], '}') + 1
			if err := errors.Join(add(text[start:i], false), add(text[i:end], true)); err != nil {
				return nil, err
			}
			i, start = end, end
		default:
			i++
		}
	}
	return k, add(text[start:], false)
}

// appendTo appends the folder of r, which is empty or ends in a slash.
func (k *keyTemplate) appendTo(dst []byte, r *pluginapi.Record) (_ []byte, err error) {
	for _, p := range k.parts {
		if p.plain {
			dst, err = p.text.Append(dst, r)
		} else {
			dst, err = p.text.AppendEscaped(dst, r, escape)
		}
		if err != nil {
			return dst, err
		}
	}
	if len(dst) > 0 && dst[len(dst)-1] != '/' {
		dst = append(dst, '/')
	}
	return dst, nil
}

const hexDigits = "0123456789ABCDEF"

// escape appends field as one level of a path, so that unescaping %XX gives it back.
func escape(dst, field []byte) []byte {
	if len(bytes.Trim(field, ".")) == 0 && len(field) <= 2 {
		for range field {
			dst = append(dst, "%2E"...)
		}
		return dst
	}
	for i := 0; i < len(field); {
		r, size := utf8.DecodeRune(field[i:])
		// A key is UTF-8.
		if r < 0x20 || r == 0x7f || strings.ContainsRune(`"#%'*/:=?\{}[]^`, r) || (r == utf8.RuneError && size == 1) {
			dst = append(dst, '%', hexDigits[field[i]>>4], hexDigits[field[i]&15])
		} else {
			dst = append(dst, field[i:i+size]...)
		}
		i += size
	}
	return dst
}

// objectName returns the name, without its folder, of the object with the given records of batch. It is the same for the same
// records in any order, and another for any others: two members of a group can hold records of one partition in turns, so
// first and last offset would not tell them apart. Timestamps and keys tell a topic from the one it was before it was made
// anew, whose id a host may not know.
func objectName(batch []pluginapi.Record, indexes []int, extension string) string {
	sorted := slices.Clone(indexes)
	slices.SortFunc(sorted, func(a, b int) int {
		x, y := &batch[a], &batch[b]
		return cmp.Or(cmp.Compare(x.Topic, y.Topic), cmp.Compare(x.Partition, y.Partition), cmp.Compare(x.Offset, y.Offset))
	})
	hash := sha256.New()
	var buf []byte
	for _, i := range sorted {
		r := &batch[i]
		buf = append(buf[:0], r.TopicID[:]...)
		buf = binary.BigEndian.AppendUint32(buf, uint32(len(r.Topic)))
		buf = append(buf, r.Topic...)
		buf = binary.BigEndian.AppendUint32(buf, uint32(r.Partition))
		buf = binary.BigEndian.AppendUint64(buf, uint64(r.Offset))
		buf = binary.BigEndian.AppendUint64(buf, uint64(r.Timestamp.UnixMilli()))
		buf = r.Key.AppendText(buf)
		hash.Write(buf)
	}
	first := &batch[sorted[0]]
	// Kafka allows only letters, digits, ".", "_" and "-" in a topic's name; a host that renames topics may not.
	topic := escape(nil, []byte(first.Topic))
	// int32 has ten digits, int64 nineteen.
	return fmt.Sprintf("%s-%010d-%019d-%d-%s%s", topic, first.Partition, first.Offset, len(indexes), hex.EncodeToString(hash.Sum(nil)[:8]), extension)
}
