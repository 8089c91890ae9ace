package rpc

import (
	"bytes"
	_ "embed"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// protoFile is docs/abi/sluice/plugin/v1/sink.proto as protoc sees it:
//
//	protoc -I docs/abi --include_imports --descriptor_set_out=internal/abi/rpc/testdata/sink.binpb sluice/plugin/v1/sink.proto
//
//go:embed testdata/sink.binpb
var protoFile []byte

func service(t *testing.T) protoreflect.FileDescriptor {
	t.Helper()
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(protoFile, &set); err != nil {
		t.Fatal(err)
	}
	files, err := protodesc.NewFiles(&set)
	if err != nil {
		t.Fatal(err)
	}
	file, err := files.FindFileByPath("sluice/plugin/v1/sink.proto")
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// split cuts b into buffers of n bytes, as the transport may.
func split(b []byte, n int) mem.BufferSlice {
	var out mem.BufferSlice
	for len(b) > n {
		out = append(out, mem.SliceBuffer(b[:n:n]))
		b = b[n:]
	}
	return append(out, mem.SliceBuffer(b))
}

func TestMessageIsTheProtoFilesOwn(t *testing.T) {
	messages := service(t).Messages()
	tests := []struct {
		name string // Of the message in the .proto.
		m    Message
		set  map[protoreflect.Name]any
	}{
		{"DescribeRequest", Message{}, nil},
		{"DescribeResponse", Message{Data: []byte("d")}, map[protoreflect.Name]any{"description": []byte("d")}},
		{"DescribeResponse", Message{Data: []byte("d"), Shared: true}, map[protoreflect.Name]any{"description": []byte("d"), "shared": true}},
		{"DescribeResponse", Message{Data: []byte("d"), Sockets: true}, map[protoreflect.Name]any{"description": []byte("d"), "sockets": true}},
		{"StartRequest", Message{Instance: 300, Data: []byte("s")}, map[protoreflect.Name]any{"instance": uint64(300), "start": []byte("s")}},
		{"InstanceRequest", Message{Instance: 1 << 60, Timeout: 2500 * time.Millisecond}, map[protoreflect.Name]any{"instance": uint64(1 << 60), "timeout_ms": uint64(2500)}},
		{"Answer", Message{Data: []byte{0xf6}}, map[protoreflect.Name]any{"error": []byte{0xf6}}},
		{"Chunk", Message{Instance: 7, Data: bytes.Repeat([]byte("x"), 70000), Last: true}, map[protoreflect.Name]any{
			"instance": uint64(7), "data": bytes.Repeat([]byte("x"), 70000), "last": true,
		}},
		{"Chunk", Message{SharedOffset: 1 << 40, SharedBytes: 70000, Last: true}, map[protoreflect.Name]any{
			"shared_offset": uint64(1 << 40), "shared_bytes": uint64(70000), "last": true,
		}},
		{"Chunk", Message{Ended: true, Status: 10, Data: []byte("panic")}, map[protoreflect.Name]any{"ended": true, "status": uint32(10), "data": []byte("panic")}},
		{"Chunk", Message{Cancel: true}, map[protoreflect.Name]any{"cancel": true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			desc := messages.ByName(protoreflect.Name(tt.name))
			want := dynamicpb.NewMessage(desc)
			for name, v := range tt.set {
				want.Set(desc.Fields().ByName(name), protoreflect.ValueOf(v))
			}

			ours, err := NewCodec().Marshal(&tt.m)
			if err != nil {
				t.Fatal(err)
			}
			got := dynamicpb.NewMessage(desc)
			if err := proto.Unmarshal(ours.Materialize(), got); err != nil {
				t.Fatalf("a stock decoder refuses what the codec wrote: %v", err)
			}
			if !proto.Equal(got, want) {
				t.Errorf("a stock decoder reads %v, want %v", got, want)
			}

			stock, err := proto.Marshal(want)
			if err != nil {
				t.Fatal(err)
			}
			for _, size := range []int{1, 3, 1 << 20} {
				var back Message
				if err := NewCodec().Unmarshal(split(stock, size), &back); err != nil {
					t.Fatalf("buffers of %d: %v", size, err)
				}
				if back.Instance != tt.m.Instance || back.Last != tt.m.Last || back.Cancel != tt.m.Cancel || back.Timeout != tt.m.Timeout || back.SharedOffset != tt.m.SharedOffset || back.SharedBytes != tt.m.SharedBytes || back.Shared != tt.m.Shared || back.Sockets != tt.m.Sockets || back.Ended != tt.m.Ended || back.Status != tt.m.Status || !bytes.Equal(back.Data, tt.m.Data) {
					t.Errorf("buffers of %d: codec reads another message from a stock encoder's bytes", size)
				}
			}
		})
	}
}

func TestServiceIsTheProtoFilesOwn(t *testing.T) {
	s := service(t).Services().Get(0)
	if string(s.FullName()) != ServiceName {
		t.Errorf("service %s, want %s", s.FullName(), ServiceName)
	}
	var registered recorder
	Register(&registered, nil)
	if got, want := len(registered), s.Methods().Len(); got != want {
		t.Errorf("%d methods registered, %d in the .proto", got, want)
	}
	for _, name := range registered {
		if s.Methods().ByName(protoreflect.Name(name)) == nil {
			t.Errorf("method %s is not in the .proto", name)
		}
	}
}

func TestUnmarshalAppends(t *testing.T) {
	b, err := NewCodec().Marshal(&Message{Data: []byte("two")})
	if err != nil {
		t.Fatal(err)
	}
	m := Message{Data: []byte("one")}
	if err := NewCodec().Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	if string(m.Data) != "onetwo" {
		t.Errorf("data %q, want %q", m.Data, "onetwo")
	}
}

func TestUnmarshalSkipsUnknownFields(t *testing.T) {
	var b []byte
	b = protowire.AppendTag(b, 9, protowire.BytesType)
	b = protowire.AppendBytes(b, []byte("new"))
	b = protowire.AppendTag(b, 10, protowire.Fixed64Type)
	b = protowire.AppendFixed64(b, 1)
	b = protowire.AppendTag(b, 11, protowire.Fixed32Type)
	b = protowire.AppendFixed32(b, 1)
	b = protowire.AppendTag(b, 12, protowire.VarintType)
	b = protowire.AppendVarint(b, 1<<40)
	b = append(b, tagInstance, 5)
	var m Message
	if err := NewCodec().Unmarshal(split(b, 2), &m); err != nil {
		t.Fatal(err)
	}
	if m.Instance != 5 {
		t.Errorf("instance %d, want 5", m.Instance)
	}
}

func TestUnmarshalRefusesGarbage(t *testing.T) {
	tests := map[string][]byte{
		"cut tag":            {0x80},
		"cut varint":         {tagInstance, 0x80},
		"cut bool":           {tagLast},
		"data longer":        {tagData, 9, 'x'},
		"huge data":          {tagData, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
		"unknown longer":     {9<<3 | wireBytes, 9, 'x'},
		"cut fixed":          {9<<3 | wireFixed64, 1, 2},
		"field zero":         {0},
		"group":              {9<<3 | 3},
		"data as a varint":   {2<<3 | wireVarint},
		"unknown cut varint": {9 << 3, 0xff},
	}
	for name, b := range tests {
		t.Run(name, func(t *testing.T) {
			err := NewCodec().Unmarshal(split(b, 1), &Message{})
			if !errors.Is(err, errMalformed) {
				t.Errorf("error %v, want %v", err, errMalformed)
			}
		})
	}
}

func FuzzUnmarshal(f *testing.F) {
	f.Add([]byte{tagInstance, 1, tagData, 3, 'a', 'b', 'c', tagLast, 1}, 2)
	f.Add([]byte{tagData, 0xff, 0xff, 0x03}, 1)
	f.Add([]byte{9<<3 | wireBytes, 2, 1, 2, tagCancel, 1}, 5)
	f.Fuzz(func(t *testing.T, b []byte, size int) {
		if size < 1 {
			size = 1
		}
		var m Message
		if err := NewCodec().Unmarshal(split(b, size), &m); err != nil {
			return
		}
		if len(m.Data) > len(b) {
			t.Fatalf("%d bytes of data from %d", len(m.Data), len(b))
		}
		again, err := NewCodec().Marshal(&m)
		if err != nil {
			t.Fatal(err)
		}
		var back Message
		if err := NewCodec().Unmarshal(again, &back); err != nil {
			t.Fatalf("codec refuses what it wrote: %v", err)
		}
		if back.Instance != m.Instance || back.Last != m.Last || back.Cancel != m.Cancel || back.Timeout != m.Timeout || !bytes.Equal(back.Data, m.Data) {
			t.Fatalf("read back %+v, wrote %+v", back, m)
		}
	})
}
