package control

import (
	"context"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"tollgate/schemas"
)

// Parcel is one line of an export: a letter as it is stored, so that it can come back
// byte for byte. What is not text stands in the fields that end in base64.
type Parcel struct {
	ID       string              `json:"id"`
	Subject  string              `json:"subject"`
	Header   schemas.Header      `json:"header,omitempty"`
	Header64 map[string][][]byte `json:"header_base64,omitempty"`
	Body     string              `json:"body,omitempty"`
	Body64   []byte              `json:"body_base64,omitempty"`
}

// Fetch gets one letter as it is stored.
func (c *Client) Fetch(ctx context.Context, id string) (Parcel, error) {
	query, err := json.Marshal(IDQuery{ID: id})
	if err != nil {
		return Parcel{}, err
	}
	m, err := c.Send(ctx, VerbExport, nats.Header{}, query)
	if err != nil {
		return Parcel{}, err
	}
	p := Parcel{ID: id, Subject: m.Header.Get(HeaderSubject), Header: schemas.Header(m.Header)}
	delete(p.Header, HeaderSubject)
	if full := p.Header.Get(schemas.HeaderLetter); full != "" {
		p.ID = full
	}
	p.pack(m.Data)
	return p, nil
}

// pack keeps what JSON could not give back apart.
func (p *Parcel) pack(body []byte) {
	if p.Body = string(body); !utf8.Valid(body) {
		p.Body, p.Body64 = "", body
	}
	for k, vs := range p.Header {
		if utf8.ValidString(k + strings.Join(vs, "")) {
			continue
		}
		if p.Header64 == nil {
			p.Header64 = map[string][][]byte{}
		}
		for _, v := range vs {
			p.Header64[k] = append(p.Header64[k], []byte(v))
		}
		delete(p.Header, k)
	}
}

// Unpack is the letter's headers and body, as an import takes them.
func (p *Parcel) Unpack() (nats.Header, []byte) {
	h := nats.Header(p.Header.Clone())
	for k, vs := range p.Header64 {
		for _, v := range vs {
			h[k] = append(h[k], string(v))
		}
	}
	if p.Body64 != nil {
		return h, p.Body64
	}
	return h, []byte(p.Body)
}
