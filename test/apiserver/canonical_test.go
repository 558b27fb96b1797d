package apiserver_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// renaming gives what each server chooses, UIDs, versions and times, names of their own,
// in the order in which they appear.
type renaming struct{ uids, versions map[string]string }

func newRenaming() renaming { return renaming{map[string]string{}, map[string]string{}} }

var (
	uuid        = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	versionText = regexp.MustCompile(`((?:esource [vV]ersion|esourceVersion|in record|in the precondition)[^0-9a-zA-Z]*)([0-9]+)`)
	tooOldText  = regexp.MustCompile(`(too old resource version: )\d+ \(\d+\)`)
	ageText     = regexp.MustCompile(`^\d+s$`)
	timeText    = regexp.MustCompile(`\d{4}-\d{2}-\d{2}T[0-9:.]+Z`)
)

func rename(of map[string]string, prefix, value string) string {
	if of[value] == "" {
		of[value] = fmt.Sprint(prefix, len(of)+1)
	}
	return of[value]
}

// canonical returns a value with such names.
func (r renaming) canonical(key string, value any) any {
	switch value := value.(type) {
	case map[string]any:
		return r.object(key, value)
	case []any:
		items := make([]any, len(value))
		for i, item := range value {
			items[i] = r.canonical(key, item)
		}
		return items
	case string:
		return r.text(key, value)
	default:
		return value
	}
}

func (r renaming) object(key string, value map[string]any) map[string]any {
	_, isList := value["items"]
	_, isTable := value["rows"]
	if isList || isTable {
		value = withoutVersion(value)
	}
	if object, ok := value["object"].(map[string]any); ok && value["type"] == "BOOKMARK" {
		value = maps.Clone(value)
		value["object"] = withoutVersion(object)
	}
	object := map[string]any{}
	for _, k := range slices.Sorted(maps.Keys(value)) {
		object[k] = r.canonical(k, value[k])
	}
	if owners, ok := object["managedFields"].([]any); ok { // their order is that of the seconds in which they wrote
		slices.SortFunc(owners, func(a, b any) int { return strings.Compare(owner(a), owner(b)) })
	}
	switch object["kind"] {
	case "Status":
		sortReasons(object)
	case "APIResourceList": // they come in the order of a map, too
		slices.SortFunc(object["resources"].([]any), func(a, b any) int {
			return strings.Compare(fmt.Sprint(a.(map[string]any)["name"]), fmt.Sprint(b.(map[string]any)["name"]))
		})
	}
	if prefix, ok := value["generateName"].(string); ok && key == "metadata" {
		object["name"] = prefix + "*"
	}
	return object
}

// owner names an entry of managedFields.
func owner(entry any) string {
	e, _ := entry.(map[string]any)
	return fmt.Sprint(e["manager"], " ", e["operation"], " ", e["subresource"], " ", e["apiVersion"])
}

// withoutVersion returns a list, a table, or a bookmark, as one of no version. Others write meanwhile:
// it is that of the newest of the objects, or a later one.
func withoutVersion(list map[string]any) map[string]any {
	meta, ok := list["metadata"].(map[string]any)
	if !ok || meta["resourceVersion"] == nil {
		return list
	}
	list, meta = maps.Clone(list), maps.Clone(meta)
	list["metadata"], meta["resourceVersion"] = meta, ""
	return list
}

// sortReasons puts those of a refusal in order: the schema's come in that of a map.
func sortReasons(status map[string]any) {
	details, _ := status["details"].(map[string]any)
	causes, _ := details["causes"].([]any)
	if len(causes) < 2 {
		return
	}
	slices.SortFunc(causes, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	words := strings.Fields(strings.NewReplacer("[", "", "]", "", ",", "").Replace(fmt.Sprint(status["message"])))
	slices.Sort(words)
	status["message"] = strings.Join(words, " ")
}

func (r renaming) text(key, value string) string {
	switch key {
	case "resourceVersion":
		if value == "" {
			return value
		}
		return rename(r.versions, "v", value)
	case "continue":
		return "a token"
	case "cells":
		if ageText.MatchString(value) {
			return "an age"
		}
	}
	value = tooOldText.ReplaceAllString(value, "${1}early (later)")
	value = timeText.ReplaceAllStringFunc(value, func(text string) string {
		if at, err := time.Parse(time.RFC3339Nano, text); err != nil || time.Since(at).Abs() > 24*time.Hour {
			return text
		}
		return "now"
	})
	value = uuid.ReplaceAllStringFunc(value, func(uid string) string { return rename(r.uids, "u", uid) })
	return versionText.ReplaceAllStringFunc(value, func(match string) string {
		parts := versionText.FindStringSubmatch(match)
		return parts[1] + rename(r.versions, "v", parts[2])
	})
}

// decode returns the value of an answer: JSON, or protobuf as JSON, or a text.
func decode(body []byte) any {
	if strings.HasPrefix(string(body), "k8s\x00") {
		obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
		if err != nil {
			return err.Error()
		}
		value, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err != nil {
			return err.Error()
		}
		return value
	}
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		return string(body)
	}
	return value
}

// lines are the leaves of a value with their paths, to be compared.
func lines(path string, value any) (all []string) {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			all = append(all, lines(path+"."+key, value[key])...)
		}
		if len(value) == 0 {
			all = append(all, path+" = {}")
		}
	case []any:
		for i, item := range value {
			all = append(all, lines(fmt.Sprintf("%s[%d]", path, i), item)...)
		}
		if len(value) == 0 {
			all = append(all, path+" = []")
		}
	default:
		all = append(all, fmt.Sprintf("%s = %v", path, value))
	}
	return all
}

// learn keeps what is referred to.
func (s *server) learn(body []byte) {
	object, ok := decode(body).(map[string]any)
	if !ok {
		return
	}
	meta, ok := object["metadata"].(map[string]any)
	if !ok {
		return
	}
	if token, ok := meta["continue"].(string); ok {
		s.token = token
	}
	name, _ := meta["name"].(string)
	uid, _ := meta["uid"].(string)
	version, _ := meta["resourceVersion"].(string)
	kind, _ := object["kind"].(string)
	if name == "" || uid == "" {
		return
	}
	resource := strings.ToLower(kind) + "s"
	if strings.HasSuffix(kind, "Policy") {
		resource = "remedypolicies"
	}
	path := complete(resource + "/" + name)
	was := s.told[path]
	now := &told{uid: uid, version: version}
	if was != nil {
		now.before = was.before
		if was.version != version {
			now.before = was.version
		}
	}
	s.told[path] = now
}
