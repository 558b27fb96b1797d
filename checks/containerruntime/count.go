package containerruntime

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// count is the number of items in an answer that is a list.
//
// The list itself is never decoded: on a node with thousands of containers that
// would be tens of megabytes on every run, for a figure in a message.
type count int

// codec is gRPC's own for protocol buffers, but also decodes lists to a count.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) (err error) {
	if n, ok := v.(*count); ok {
		*n, err = countItems(data)
		return err
	}
	return c.CodecV2.Unmarshal(data, v)
}

// Wire types (https://protobuf.dev/programming-guides/encoding).
const (
	wireVarint = 0
	wire64Bit  = 1
	wireBytes  = 2
	wire32Bit  = 5
)

// itemsTag is the tag of the repeated field 1, which holds the items in
// ListPodSandboxResponse and in ListContainersResponse.
const itemsTag = 1<<3 | wireBytes

// countItems counts the occurrences of itemsTag and skips all else.
func countItems(data mem.BufferSlice) (n count, err error) {
	r := data.Reader()
	defer func() { _ = r.Close() }() // never fails
	for r.Remaining() > 0 {
		tag, err := binary.ReadUvarint(r)
		if err != nil {
			return 0, fmt.Errorf("reading a tag: %w", err)
		}
		if err := skip(r, tag&7); err != nil {
			return 0, fmt.Errorf("reading field %d: %w", tag>>3, err)
		}
		if tag == itemsTag {
			n++
		}
	}
	return n, nil
}

func skip(r *mem.Reader, wireType uint64) (err error) {
	var length uint64
	switch wireType {
	case wireVarint:
		_, err = binary.ReadUvarint(r)
		return err
	case wire64Bit:
		length = 8
	case wire32Bit:
		length = 4
	case wireBytes:
		if length, err = binary.ReadUvarint(r); err != nil {
			return err
		}
	default:
		return errors.New("unknown wire type")
	}
	if length > uint64(r.Remaining()) {
		return io.ErrUnexpectedEOF
	}
	_, err = r.Discard(int(length))
	return err
}
