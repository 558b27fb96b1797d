package verdict_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/hardware-scenarios.md anew")

// fewestScenarios is how many there are to be at least.
const fewestScenarios = 240

const scenariosHead = `# Scenarios of HardwareFailure

%d scenarios, by kind. Tests [play each](../ipmi/verdict/scenarios_test.go): a BMC holds and does something, often over hours and boots, and after each moment the verdict has to be what a good operator wants,
for the reason given. It is asked for twice, with a restart of the detector before. A BMC that holds the same is read through the device's commands, over LAN and by ipmitool, with the same verdict; what a lack of time cuts off, and sensors of
other controllers, are left out there. Those of Redfish are played by a service with mock-ups of [Dell, HPE and the DMTF](../test/redfish/mockup.go). What is said of a maker is from the public sources that [part.go](../ipmi/part.go) and [oem.go](../ipmi/oem.go) name.
`

func TestTheDocumentationListsTheScenarios(t *testing.T) {
	page := filepath.Join("..", "..", "docs", "hardware-scenarios.md")
	want := scenariosPage(t)
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(page); err != nil || string(got) != want {
		t.Errorf("it does not (%v): go test ./ipmi/verdict -run TestTheDocumentationListsTheScenarios -update", err)
	}
}

// kinds are the tests that play scenarios.
func kinds() []func(*testing.T) {
	return []func(*testing.T){
		TestAPowerFeedTakesNoServerOut,
		TestAFailureIsNotReleasedWithoutARepair,
		TestAnExchangedModuleIsOver,
		TestEventsAreOfThePartThatTheyAreAbout,
		TestComponentsAreToldApartByTheirEntity,
		TestALogThatShrinksWithoutAClearIsDoubted,
		TestALogThatIsReadOnceMoreTellsOnlyWhatIsNew,
		TestAMissingReadingIsDoubt,
		TestABadSensorBlindsForNoOther,
		TestAFailureInTheLogIsBelievedIfItsSensorNeverReads,
		TestACriticalStateOfMemoryOrAProcessorLatches,
		TestADeletionIsToldFromAClearByRecordsWithoutATime,
		TestWhatOnlyTheLogTellsFromBeforeTheFirstLookIsListed,
		TestAServerWhoseMemoryIsLostIsNotSeenForTheFirstTime,
		TestAServerIsNotTakenOutForLittle,
		TestWhatABMCTellsInAnUnusualWayIsSeen,
		TestAFanThatStopsAgainAndAgainIsSeen,
		TestOnlyTimeCountsDuringWhichTheServerWasWatched,
		TestPartsAreJudgedByRedfish,
		TestWhatRedfishDoesNotTellIsNotKnown,
		TestAServiceThatIsNotTheOneTellsNothing,
		TestTheLogOfRedfishIsRead,
	}
}

// listed has the scenarios that were to be played while somebody only wants to list them.
var listed *[]scenario

// scenariosPage makes the page. The comment of a test says of what kind its scenarios are.
func scenariosPage(t *testing.T) string {
	t.Helper()
	comments := comments(t)
	var text strings.Builder
	total := 0
	for _, test := range kinds() {
		name := runtime.FuncForPC(reflect.ValueOf(test).Pointer()).Name()
		name = name[strings.LastIndex(name, ".")+1:]
		kind, known := comments[name]
		if !known || kind == "" {
			t.Errorf("%s does not play scenarios, or has no comment that says of what kind they are", name)
		}
		delete(comments, name)
		var scenarios []scenario
		listed = &scenarios
		t.Run(name, test)
		listed = nil
		total += len(scenarios)
		fmt.Fprintf(&text, "\n## %s\n\n| scenario | why |\n|---|---|\n", kind)
		for _, s := range scenarios {
			fmt.Fprintf(&text, "| %s | %s |\n", cell(s.name), cell(s.why))
		}
	}
	for name := range comments {
		t.Errorf("%s plays scenarios, and is not listed", name)
	}
	if total < fewestScenarios {
		t.Errorf("there are %d scenarios, want %d", total, fewestScenarios)
	}
	return fmt.Sprintf(scenariosHead, total) + text.String()
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// comments returns the first sentence of what is said of each test that calls play.
func comments(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, declared := range file.Decls {
			f, ok := declared.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(f.Name.Name, "Test") {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					if of, ok := call.Fun.(*ast.Ident); ok && slices.Contains([]string{"play", "playAfter", "playRedfish"}, of.Name) {
						sentence, _, _ := strings.Cut(strings.Join(strings.Fields(f.Doc.Text()), " "), ". ")
						all[f.Name.Name] = strings.TrimSuffix(sentence, ".")
					}
				}
				return true
			})
		}
	}
	return all
}
