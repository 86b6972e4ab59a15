<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" language="de_DE" sourcelanguage="en">
<context>
    <name></name>
    <message>
        <source>The engine could not start: {reason}.</source>
        <translation>Die Engine konnte nicht starten: {reason}.</translation>
    </message>
    <message>
        <source>Install the program again.</source>
        <translation>Das Programm neu installieren.</translation>
    </message>
    <message>
        <source>No model is loaded.</source>
        <translation>Es ist kein Modell geladen.</translation>
    </message>
    <message>
        <source>Choose a model first.</source>
        <translation>Zuerst ein Modell wählen.</translation>
    </message>
    <message>
        <source>Another window goes on with this answer.</source>
        <translation>Ein anderes Fenster schreibt diese Antwort weiter.</translation>
    </message>
    <message>
        <source>It is shown here as it is written.</source>
        <translation>Sie erscheint hier, während sie entsteht.</translation>
    </message>
    <message>
        <source>{count} tokens</source>
        <translation>{count} Tokens</translation>
    </message>
    <message>
        <source>Continue my text</source>
        <translation>Text fortsetzen</translation>
    </message>
    <message>
        <source>In another chat: {message}</source>
        <translation>In einem anderen Chat: {message}</translation>
    </message>
    <message>
        <source>What was written is kept. Raise the context length in Tuning and press Apply, or start a new chat.</source>
        <translation>Das Geschriebene bleibt erhalten. Im Tuning die Kontextlänge erhöhen und „Anwenden“ wählen oder einen neuen Chat beginnen.</translation>
    </message>
    <message>
        <source>The context is full.</source>
        <translation>Der Kontext ist voll.</translation>
    </message>
    <message>
        <source>Ended by the model</source>
        <translation>Vom Modell beendet</translation>
    </message>
    <message>
        <source>Ended by you</source>
        <translation>Von Ihnen beendet</translation>
    </message>
    <message>
        <source>Ended by the longest answer length</source>
        <translation>Durch die maximale Antwortlänge beendet</translation>
    </message>
    <message>
        <source>Ended by the context length</source>
        <translation>Durch die Kontextlänge beendet</translation>
    </message>
    <message>
        <source>Ended by an error</source>
        <translation>Durch einen Fehler beendet</translation>
    </message>
    <message>
        <source>Predicted: ≈ {speed}&#xa0;tok/s</source>
        <translation>Erwartet: ≈ {speed}&#xa0;tok/s</translation>
    </message>
    <message>
        <source>Prompt: {count} tokens, {reused} of them reused, read at {speed}&#xa0;tok/s</source>
        <translation>Prompt: {count} Tokens, davon {reused} wiederverwendet, eingelesen mit {speed}&#xa0;tok/s</translation>
    </message>
    <message>
        <source>Prompt: {count} tokens, {reused} of them reused</source>
        <translation>Prompt: {count} Tokens, davon {reused} wiederverwendet</translation>
    </message>
    <message>
        <source>Prompt: {count} tokens, read at {speed}&#xa0;tok/s</source>
        <translation>Prompt: {count} Tokens, eingelesen mit {speed}&#xa0;tok/s</translation>
    </message>
    <message>
        <source>Prompt: {count} tokens</source>
        <translation>Prompt: {count} Tokens</translation>
    </message>
    <message>
        <source>The disk is full: {file} could not be written.</source>
        <translation>Das Laufwerk ist voll: {file} konnte nicht geschrieben werden.</translation>
    </message>
    <message>
        <source>Free some space and try again.</source>
        <translation>Speicherplatz freigeben und erneut versuchen.</translation>
    </message>
    <message>
        <source>{path} cannot be written: no permission.</source>
        <translation>{path} kann nicht geschrieben werden: keine Berechtigung.</translation>
    </message>
    <message>
        <source>Check who owns the folder.</source>
        <translation>Prüfen, wem der Ordner gehört.</translation>
    </message>
    <message>
        <source>{path} cannot be written: the disk is read-only.</source>
        <translation>{path} kann nicht geschrieben werden: Das Laufwerk ist schreibgeschützt.</translation>
    </message>
    <message>
        <source>Set DECODECK_HOME to another folder.</source>
        <translation>DECODECK_HOME auf einen anderen Ordner setzen.</translation>
    </message>
    <message>
        <source>{path} cannot be written: {reason}.</source>
        <translation>{path} kann nicht geschrieben werden: {reason}.</translation>
    </message>
    <message>
        <source>{path} cannot be read: no permission.</source>
        <translation>{path} kann nicht gelesen werden: keine Berechtigung.</translation>
    </message>
    <message>
        <source>{path} cannot be read: {reason}.</source>
        <translation>{path} kann nicht gelesen werden: {reason}.</translation>
    </message>
    <message>
        <source>Leave it out</source>
        <translation>Weglassen</translation>
    </message>
    <message>
        <source>Raise the context</source>
        <translation>Kontext vergrößern</translation>
    </message>
    <message>
        <source>It has {tokens} tokens, {excess} too many.</source>
        <translation>Die Datei hat {tokens} Tokens, {excess} zu viel.</translation>
    </message>
    <message>
        <source>Attach the beginning</source>
        <translation>Anfang anhängen</translation>
    </message>
    <message>
        <source>Its first {tokens} fit and leave room for an answer.</source>
        <translation>Die ersten {tokens} passen und lassen Platz für eine Antwort.</translation>
    </message>
    <message>
        <source>{file} does not fit into the context.</source>
        <translation>{file} passt nicht in den Kontext.</translation>
    </message>
    <message>
        <source>At most {most} files go with one message; left out: {names} and {count} more.</source>
        <translation>Höchstens {most} Dateien pro Nachricht; ausgelassen: {names} und {count} weitere.</translation>
    </message>
    <message>
        <source>At most {most} files go with one message; left out: {names}.</source>
        <translation>Höchstens {most} Dateien pro Nachricht; ausgelassen: {names}.</translation>
    </message>
    <message>
        <source>Text, code, CSV, JSON, Markdown and PDF files can be attached.</source>
        <translation>Anhängen lassen sich Text-, Code-, CSV-, JSON-, Markdown- und PDF-Dateien.</translation>
    </message>
    <message>
        <source>{file} is not a file.</source>
        <translation>{file} ist keine Datei.</translation>
    </message>
    <message>
        <source>{file} could not be read: {reason}.</source>
        <translation>{file} konnte nicht gelesen werden: {reason}.</translation>
    </message>
    <message>
        <source>{file} is empty.</source>
        <translation>{file} ist leer.</translation>
    </message>
    <message>
        <source>{file} is not text that can be read.</source>
        <translation>{file} ist kein lesbarer Text.</translation>
    </message>
    <message>
        <source>A text in an older encoding has to be saved as UTF-8 first.</source>
        <translation>Text in einer älteren Kodierung muss zuerst als UTF-8 gespeichert werden.</translation>
    </message>
    <message>
        <source>{file} is not text.</source>
        <translation>{file} ist kein Text.</translation>
    </message>
    <message>
        <source>At most {size} MB are read.</source>
        <translation>Höchstens {size} MB werden gelesen.</translation>
    </message>
    <message>
        <source>{file} is too large for a PDF.</source>
        <translation>{file} ist für ein PDF zu groß.</translation>
    </message>
    <message>
        <source>{file} is a PDF, and the package pypdf, which reads them, is not installed.</source>
        <translation>{file} ist ein PDF, und das Paket pypdf zum Lesen von PDFs ist nicht installiert.</translation>
    </message>
    <message>
        <source>Run pip install pypdf.</source>
        <translation>„pip install pypdf“ ausführen.</translation>
    </message>
    <message>
        <source>{file} is protected by a password.</source>
        <translation>{file} ist mit einem Passwort geschützt.</translation>
    </message>
    <message>
        <source>Save it without one first.</source>
        <translation>Zuerst ohne Passwort speichern.</translation>
    </message>
    <message>
        <source>{file} took too long to read.</source>
        <translation>Das Lesen von {file} hat zu lange gedauert.</translation>
    </message>
    <message>
        <source>{file} could not be read as a PDF.</source>
        <translation>{file} konnte nicht als PDF gelesen werden.</translation>
    </message>
    <message>
        <source>Open it elsewhere and attach its text.</source>
        <translation>In einem anderen Programm öffnen und den Text anhängen.</translation>
    </message>
    <message>
        <source>{file} has no text: it may be a scan.</source>
        <translation>{file} enthält keinen Text, vielleicht ist es ein Scan.</translation>
    </message>
    <message>
        <source>Its text has to be recognized first.</source>
        <translation>Zuerst ist eine Texterkennung nötig.</translation>
    </message>
    <message>
        <source>There is no other answer yet.</source>
        <translation>Eine andere Antwort ist noch nicht möglich.</translation>
    </message>
    <message>
        <source>It needs a model that is ready and free.</source>
        <translation>Dazu muss ein Modell bereit und frei sein.</translation>
    </message>
    <message>
        <source>A message waits in this chat.</source>
        <translation>In diesem Chat wartet eine Nachricht.</translation>
    </message>
    <message>
        <source>It goes first; Up in the empty message field takes it back.</source>
        <translation>Sie kommt zuerst; Pfeil nach oben im leeren Nachrichtenfeld holt sie zurück.</translation>
    </message>
    <message>
        <source>The answer cannot go on yet.</source>
        <translation>Die Antwort lässt sich noch nicht fortsetzen.</translation>
    </message>
    <message>
        <source>It needs a model that is ready.</source>
        <translation>Dazu muss ein Modell bereit sein.</translation>
    </message>
    <message>
        <source>Chats</source>
        <translation>Chats</translation>
    </message>
    <message>
        <source>The chat could not be read.</source>
        <translation>Der Chat konnte nicht gelesen werden.</translation>
    </message>
    <message>
        <source>The disk is full: the chat could not be saved.</source>
        <translation>Das Laufwerk ist voll: Der Chat konnte nicht gespeichert werden.</translation>
    </message>
    <message>
        <source>Free some space.</source>
        <translation>Speicherplatz freigeben.</translation>
    </message>
    <message>
        <source>The file of chats is read-only.</source>
        <translation>Die Chatdatei ist schreibgeschützt.</translation>
    </message>
    <message>
        <source>Check who owns it.</source>
        <translation>Prüfen, wem sie gehört.</translation>
    </message>
    <message>
        <source>The file of chats cannot be opened.</source>
        <translation>Die Chatdatei lässt sich nicht öffnen.</translation>
    </message>
    <message>
        <source>Check who owns its folder.</source>
        <translation>Prüfen, wem ihr Ordner gehört.</translation>
    </message>
    <message>
        <source>Another program holds the file of chats.</source>
        <translation>Ein anderes Programm blockiert die Chatdatei.</translation>
    </message>
    <message>
        <source>Close it and try again.</source>
        <translation>Schließen und erneut versuchen.</translation>
    </message>
    <message>
        <source>The disk reports an error at the file of chats.</source>
        <translation>Das Laufwerk meldet einen Fehler bei der Chatdatei.</translation>
    </message>
    <message>
        <source>Check the disk.</source>
        <translation>Das Laufwerk prüfen.</translation>
    </message>
    <message>
        <source>The file of chats is damaged.</source>
        <translation>Die Chatdatei ist beschädigt.</translation>
    </message>
    <message>
        <source>It is repaired at the next start.</source>
        <translation>Sie wird beim nächsten Start repariert.</translation>
    </message>
    <message>
        <source>The file of chats could not be used: {reason}.</source>
        <translation>Die Chatdatei war nicht verwendbar: {reason}.</translation>
    </message>
    <message>
        <source>Chat deleted: {title}</source>
        <translation>Chat gelöscht: {title}</translation>
    </message>
    <message>
        <source>Folder deleted: {name}. Its chats stay.</source>
        <translation>Ordner gelöscht: {name}. Seine Chats bleiben erhalten.</translation>
    </message>
    <message>
        <source>The search failed.</source>
        <translation>Die Suche ist fehlgeschlagen.</translation>
    </message>
    <message>
        <source>Folder</source>
        <translation>Ordner</translation>
    </message>
    <message>
        <source>Temporary</source>
        <translation>Temporär</translation>
    </message>
    <message>
        <source>Pinned</source>
        <translation>Angeheftet</translation>
    </message>
    <message>
        <source>Earlier</source>
        <translation>Früher</translation>
    </message>
    <message>
        <source>Today</source>
        <translation>Heute</translation>
    </message>
    <message>
        <source>Yesterday</source>
        <translation>Gestern</translation>
    </message>
    <message>
        <source>{path} is not a file.</source>
        <translation>{path} ist keine Datei.</translation>
    </message>
    <message>
        <source>What is new is kept only until the program ends.</source>
        <translation>Neues bleibt nur bis zum Ende des Programms erhalten.</translation>
    </message>
    <message>
        <source>These chats were written by a newer version of this program: they can be read, not changed.</source>
        <translation>Diese Chats stammen von einer neueren Version dieses Programms: Sie können gelesen, aber nicht geändert werden.</translation>
    </message>
    <message>
        <source>The folder of the chats is read-only.</source>
        <translation>Der Chatordner ist schreibgeschützt.</translation>
    </message>
    <message>
        <source>Chats can be read, not changed.</source>
        <translation>Chats können gelesen, aber nicht geändert werden.</translation>
    </message>
    <message>
        <source>The newest messages may be missing.</source>
        <translation>Die neuesten Nachrichten fehlen möglicherweise.</translation>
    </message>
    <message>
        <source>The file of chats is damaged and could not be replaced.</source>
        <translation>Die Chatdatei ist beschädigt und konnte nicht ersetzt werden.</translation>
    </message>
    <message>
        <source>The file of chats was damaged. It was set aside as &quot;{file}&quot;; no chat in it could be read.</source>
        <translation>Die Chatdatei war beschädigt. Sie wurde als „{file}“ gesichert; kein Chat darin war lesbar.</translation>
    </message>
    <message>
        <source>The file of chats was damaged. It was set aside as &quot;{file}&quot;; {chats} with {messages} could be read and are here.</source>
        <translation>Die Chatdatei war beschädigt. Sie wurde als „{file}“ gesichert. Lesbar und hier vorhanden: {chats} mit {messages}.</translation>
    </message>
    <message>
        <source>The file of chats is damaged in places: {chats} and {messages} in it cannot be shown.</source>
        <translation>Die Chatdatei ist stellenweise beschädigt. Nicht darstellbar: {chats} und {messages}.</translation>
    </message>
    <message>
        <source>The file of chats is damaged in places: {lost} in it cannot be shown.</source>
        <translation>Die Chatdatei ist stellenweise beschädigt. Nicht darstellbar: {lost}.</translation>
    </message>
    <message numerus="yes">
        <source>%n chat(s)</source>
        <translation>
            <numerusform>%n Chat</numerusform>
            <numerusform>%n Chats</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n message(s)</source>
        <translation>
            <numerusform>%n Nachricht</numerusform>
            <numerusform>%n Nachrichten</numerusform>
        </translation>
    </message>
    <message>
        <source>The export failed.</source>
        <translation>Der Export ist fehlgeschlagen.</translation>
    </message>
    <message>
        <source>Reading {names}…</source>
        <translation>Liest {names}…</translation>
    </message>
    <message>
        <source>Importing chats: {done} of {total}</source>
        <translation>Chats importieren: {done} von {total}</translation>
    </message>
    <message>
        <source>the chats</source>
        <translation>Chats</translation>
    </message>
    <message>
        <source>Cancel</source>
        <translation>Abbrechen</translation>
    </message>
    <message>
        <source>The chat was written to {file}.</source>
        <translation>Der Chat wurde in {file} gespeichert.</translation>
    </message>
    <message>
        <source>1 chat was written to {file}.</source>
        <translation>1 Chat wurde in {file} gespeichert.</translation>
    </message>
    <message>
        <source>{count} chats were written to {file}.</source>
        <translation>{count} Chats wurden in {file} gespeichert.</translation>
    </message>
    <message>
        <source>No chat was imported.</source>
        <translation>Es wurde kein Chat importiert.</translation>
    </message>
    <message numerus="yes">
        <source>%n message(s) in all.</source>
        <translation>
            <numerusform>%n Nachricht insgesamt.</numerusform>
            <numerusform>%n Nachrichten insgesamt.</numerusform>
        </translation>
    </message>
    <message>
        <source>Left out: {list}.</source>
        <translation>Ausgelassen: {list}.</translation>
    </message>
    <message>
        <source>The import was stopped; what came before stays.</source>
        <translation>Der Import wurde abgebrochen; bereits Importiertes bleibt.</translation>
    </message>
    <message>
        <source>{name}: {reason}.</source>
        <translation>{name}: {reason}.</translation>
    </message>
    <message>
        <source>… and {count} more.</source>
        <translation>… und {count} weitere.</translation>
    </message>
    <message numerus="yes">
        <source>%n chat(s) imported</source>
        <translation>
            <numerusform>%n Chat importiert</numerusform>
            <numerusform>%n Chats importiert</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n chat(s) got new messages</source>
        <translation>
            <numerusform>%n Chat mit neuen Nachrichten</numerusform>
            <numerusform>%n Chats mit neuen Nachrichten</numerusform>
        </translation>
    </message>
    <message>
        <source>1 chat was here already</source>
        <translation>1 Chat schon vorhanden</translation>
    </message>
    <message>
        <source>{count} chats were here already</source>
        <translation>{count} Chats schon vorhanden</translation>
    </message>
    <message>
        <source>1 file or chat</source>
        <translation>1 Datei oder Chat</translation>
    </message>
    <message>
        <source>{count} files or chats</source>
        <translation>{count} Dateien oder Chats</translation>
    </message>
    <message>
        <source>Settings</source>
        <translation>Einstellungen</translation>
    </message>
    <message>
        <source>The Batch lab is measuring. Stop it, or wait for its end.</source>
        <translation>Das Batch-Labor misst gerade. Stoppen oder das Ende abwarten.</translation>
    </message>
    <message>
        <source>An answer is being written. Stop it, or wait for its end.</source>
        <translation>Gerade wird eine Antwort geschrieben. Stoppen oder das Ende abwarten.</translation>
    </message>
    <message>
        <source>A model is being loaded. Try again when it is ready.</source>
        <translation>Gerade wird ein Modell geladen. Erneut versuchen, wenn es bereit ist.</translation>
    </message>
    <message>
        <source>The settings could not be saved.</source>
        <translation>Die Einstellungen konnten nicht gespeichert werden.</translation>
    </message>
    <message>
        <source>New chat</source>
        <translation>Neuer Chat</translation>
    </message>
    <message>
        <source>driver {version}</source>
        <translation>Treiber {version}</translation>
    </message>
    <message>
        <source>{count} more</source>
        <translation>{count} weitere</translation>
    </message>
    <message>
        <source>Electricity, beyond rest</source>
        <translation>Strom, Mehrverbrauch</translation>
    </message>
    <message>
        <source>What is used because tokens are made</source>
        <translation>Was zusätzlich verbraucht wird, weil Tokens entstehen</translation>
    </message>
    <message>
        <source>Electricity, the chip&apos;s counter</source>
        <translation>Strom, Zähler des Chips</translation>
    </message>
    <message>
        <source>All that the chip counts, at rest too; not at the wall</source>
        <translation>Alles, was der Chip zählt, auch im Leerlauf; nicht an der Steckdose</translation>
    </message>
    <message>
        <source>Electricity, at the wall</source>
        <translation>Strom, an der Steckdose</translation>
    </message>
    <message>
        <source>The whole computer while it makes tokens</source>
        <translation>Der ganze Computer, während er Tokens erzeugt</translation>
    </message>
    <message>
        <source>With the computer&apos;s price</source>
        <translation>Mit Preis des Computers</translation>
    </message>
    <message>
        <source>Its price over the hours of its life, and electricity</source>
        <translation>Sein Preis, verteilt auf die Stunden seiner Nutzung, dazu der Strom</translation>
    </message>
    <message>
        <source>The computer&apos;s price alone</source>
        <translation>Nur Preis des Computers</translation>
    </message>
    <message>
        <source>Over the hours that it works in its life</source>
        <translation>Verteilt auf die Stunden, die er während seiner Nutzung arbeitet</translation>
    </message>
    <message>
        <source>The price you have typed</source>
        <translation>Der eingegebene Preis</translation>
    </message>
    <message>
        <source>Electricity, the chip&apos;s counter, for a million tokens written: all that the chip counts, at rest too; not at the wall.</source>
        <translation>Strom laut Zähler des Chips für eine Million geschriebene Tokens: alles, was der Chip zählt, auch im Leerlauf; nicht an der Steckdose.</translation>
    </message>
    <message>
        <source>Electricity, at the wall, for a million tokens written: the whole computer while it makes tokens.</source>
        <translation>Strom an der Steckdose für eine Million geschriebene Tokens: der ganze Computer, während er Tokens erzeugt.</translation>
    </message>
    <message>
        <source>W at the wall</source>
        <translation>W (Steckdose)</translation>
    </message>
    <message>
        <source>{currency} per million</source>
        <translation>{currency} je Million</translation>
    </message>
    <message>
        <source>Electricity</source>
        <translation>Strom</translation>
    </message>
    <message>
        <source>{currency} per kWh</source>
        <translation>{currency} je kWh</translation>
    </message>
    <message>
        <source>The price on your bill</source>
        <translation>Der Preis laut Stromrechnung</translation>
    </message>
    <message>
        <source>While it answers</source>
        <translation>Beim Antworten</translation>
    </message>
    <message>
        <source>The whole computer, read from a meter at the plug</source>
        <translation>Der ganze Computer, abgelesen von einem Messgerät an der Steckdose</translation>
    </message>
    <message>
        <source>At rest</source>
        <translation>Leerlauf</translation>
    </message>
    <message>
        <source>The same with nothing to do</source>
        <translation>Dasselbe, wenn er nichts zu tun hat</translation>
    </message>
    <message>
        <source>Computer</source>
        <translation>Computer</translation>
    </message>
    <message>
        <source>What it has cost, or the part that counts</source>
        <translation>Was er gekostet hat, oder der Teil, der zählt</translation>
    </message>
    <message>
        <source>Used for</source>
        <translation>Nutzung</translation>
    </message>
    <message>
        <source>years</source>
        <translation>Jahre</translation>
    </message>
    <message>
        <source>Until it is replaced</source>
        <translation>Bis er ersetzt wird</translation>
    </message>
    <message>
        <source>Busy</source>
        <translation>Aktiv</translation>
    </message>
    <message>
        <source>hours a day</source>
        <translation>Stunden/Tag</translation>
    </message>
    <message>
        <source>Making tokens, on average</source>
        <translation>Beim Erzeugen von Tokens, im Durchschnitt</translation>
    </message>
    <message>
        <source>API, tokens read</source>
        <translation>API, gelesen</translation>
    </message>
    <message>
        <source>What a service takes for a prompt</source>
        <translation>Was ein Dienst für einen Prompt verlangt</translation>
    </message>
    <message>
        <source>API, written</source>
        <translation>API, geschrieben</translation>
    </message>
    <message>
        <source>And for an answer</source>
        <translation>Und für eine Antwort</translation>
    </message>
    <message>
        <source>{write}&#xa0;tok/s written and {read}&#xa0;read</source>
        <translation>{write}&#xa0;tok/s beim Schreiben und {read}&#xa0;beim Lesen</translation>
    </message>
    <message>
        <source>{write}&#xa0;tok/s written and {read}&#xa0;read, as the last answer was written</source>
        <translation>{write}&#xa0;tok/s beim Schreiben und {read}&#xa0;beim Lesen, wie bei der letzten Antwort</translation>
    </message>
    <message>
        <source>{write}&#xa0;tok/s written and {read}&#xa0;read, as the lab has measured</source>
        <translation>{write}&#xa0;tok/s beim Schreiben und {read}&#xa0;beim Lesen, im Labor gemessen</translation>
    </message>
    <message>
        <source>{write}&#xa0;tok/s written and {read}&#xa0;read, as predicted</source>
        <translation>{write}&#xa0;tok/s beim Schreiben und {read}&#xa0;beim Lesen, laut Vorhersage</translation>
    </message>
    <message>
        <source>Type the watts of this computer to see what tokens cost: nothing here can read them.</source>
        <translation>Die Leistung dieses Computers in Watt eingeben, um zu sehen, was Tokens kosten: Auslesen lässt sie sich hier nicht.</translation>
    </message>
    <message>
        <source>Type the price of electricity to see it in money.</source>
        <translation>Den Strompreis eingeben, um die Kosten in Geld zu sehen.</translation>
    </message>
    <message>
        <source>{watts}&#xa0;W measured by the chip</source>
        <translation>{watts}&#xa0;W vom Chip gemessen</translation>
    </message>
    <message>
        <source>{watts}&#xa0;W as typed</source>
        <translation>{watts}&#xa0;W laut Eingabe</translation>
    </message>
    <message>
        <source>An answer of {tokens} tokens, the average of your last ones, takes ≈&#xa0;{seconds}&#xa0;s and costs {money}; the API takes {price}.</source>
        <translation>Eine Antwort mit {tokens} Tokens, dem Durchschnitt Ihrer letzten, dauert ≈&#xa0;{seconds}&#xa0;s und kostet {money}; die API verlangt {price}.</translation>
    </message>
    <message>
        <source>An answer of {tokens} tokens, the average of your last ones, takes ≈&#xa0;{seconds}&#xa0;s and costs {money}.</source>
        <translation>Eine Antwort mit {tokens} Tokens, dem Durchschnitt Ihrer letzten, dauert ≈&#xa0;{seconds}&#xa0;s und kostet {money}.</translation>
    </message>
    <message>
        <source>An answer of {tokens} tokens, the average of your last ones, takes ≈&#xa0;{seconds}&#xa0;s; the API takes {price}.</source>
        <translation>Eine Antwort mit {tokens} Tokens, dem Durchschnitt Ihrer letzten, dauert ≈&#xa0;{seconds}&#xa0;s; die API verlangt {price}.</translation>
    </message>
    <message>
        <source>An answer of {tokens} tokens, the average of your last ones, takes ≈&#xa0;{seconds}&#xa0;s.</source>
        <translation>Eine Antwort mit {tokens} Tokens, dem Durchschnitt Ihrer letzten, dauert ≈&#xa0;{seconds}&#xa0;s.</translation>
    </message>
    <message>
        <source>This folder was named for this run alone.</source>
        <translation>Dieser Ordner wurde nur für diesen Lauf angegeben.</translation>
    </message>
    <message>
        <source>Start Decodeck without naming it.</source>
        <translation>Decodeck ohne diese Angabe starten.</translation>
    </message>
    <message>
        <source>{path} is not in a folder that exists.</source>
        <translation>{path} liegt in keinem vorhandenen Ordner.</translation>
    </message>
    <message>
        <source>Give the full path of a folder.</source>
        <translation>Den vollständigen Pfad eines Ordners angeben.</translation>
    </message>
    <message>
        <source>It is there already.</source>
        <translation>Er ist bereits dort.</translation>
    </message>
    <message>
        <source>A folder cannot be moved into itself.</source>
        <translation>Ein Ordner kann nicht in sich selbst verschoben werden.</translation>
    </message>
    <message>
        <source>Choose one outside of it.</source>
        <translation>Einen Ordner außerhalb wählen.</translation>
    </message>
    <message>
        <source>The models folder is inside the data folder.</source>
        <translation>Der Modellordner liegt im Datenordner.</translation>
    </message>
    <message>
        <source>Move the models folder first.</source>
        <translation>Zuerst den Modellordner verschieben.</translation>
    </message>
    <message>
        <source>{path} is not there.</source>
        <translation>{path} ist nicht vorhanden.</translation>
    </message>
    <message>
        <source>Connect its disk and try again.</source>
        <translation>Das Laufwerk anschließen und erneut versuchen.</translation>
    </message>
    <message>
        <source>Another window has the chats open.</source>
        <translation>Ein anderes Fenster hat die Chats geöffnet.</translation>
    </message>
    <message>
        <source>{path} is a file.</source>
        <translation>{path} ist eine Datei.</translation>
    </message>
    <message>
        <source>Choose a folder.</source>
        <translation>Einen Ordner wählen.</translation>
    </message>
    <message>
        <source>{path} is not empty.</source>
        <translation>{path} ist nicht leer.</translation>
    </message>
    <message>
        <source>Choose an empty folder, or a new one.</source>
        <translation>Einen leeren oder neuen Ordner wählen.</translation>
    </message>
    <message>
        <source>{needed} needed, {free} free on this disk.</source>
        <translation>{needed} benötigt, {free} auf diesem Laufwerk frei.</translation>
    </message>
    <message>
        <source>Choose another folder.</source>
        <translation>Einen anderen Ordner wählen.</translation>
    </message>
    <message>
        <source>The move was stopped.</source>
        <translation>Das Verschieben wurde gestoppt.</translation>
    </message>
    <message>
        <source>Everything is where it was.</source>
        <translation>Alles ist noch am alten Ort.</translation>
    </message>
    <message>
        <source>{file} changed while it was moved.</source>
        <translation>{file} wurde während des Verschiebens geändert.</translation>
    </message>
    <message>
        <source>Try again.</source>
        <translation>Erneut versuchen.</translation>
    </message>
    <message>
        <source>{name} is neither a file nor a folder.</source>
        <translation>{name} ist weder Datei noch Ordner.</translation>
    </message>
    <message>
        <source>Take it out and try again.</source>
        <translation>Herausnehmen und erneut versuchen.</translation>
    </message>
    <message>
        <source>{path} could not be removed: {reason}. It is not used any more.</source>
        <translation>{path} konnte nicht entfernt werden: {reason}. Gebraucht wird es nicht mehr.</translation>
    </message>
    <message>
        <source>{file} is already being downloaded.</source>
        <translation>{file} wird bereits heruntergeladen.</translation>
    </message>
    <message>
        <source>Wait for the other download, or stop it.</source>
        <translation>Den anderen Download abwarten oder stoppen.</translation>
    </message>
    <message>
        <source>Free some space on the disk of {folder}; what has arrived is kept.</source>
        <translation>Auf dem Laufwerk von {folder} Speicherplatz freigeben; bereits Heruntergeladenes bleibt erhalten.</translation>
    </message>
    <message>
        <source>Checking was stopped; the file is kept and checked next time.</source>
        <translation>Die Prüfung wurde gestoppt; die Datei bleibt erhalten und wird nächstes Mal geprüft.</translation>
    </message>
    <message>
        <source>{file} was removed while it was being downloaded.</source>
        <translation>{file} wurde während des Downloads entfernt.</translation>
    </message>
    <message>
        <source>Paused at {done} of {total}.</source>
        <translation>Pausiert bei {done} von {total}.</translation>
    </message>
    <message>
        <source>Paused at {done}.</source>
        <translation>Pausiert bei {done}.</translation>
    </message>
    <message>
        <source>It goes on there next time.</source>
        <translation>Nächstes Mal geht es dort weiter.</translation>
    </message>
    <message>
        <source>{file} does not have the expected content: it was damaged on the way, or replaced.</source>
        <translation>{file} hat nicht den erwarteten Inhalt: unterwegs beschädigt oder ersetzt.</translation>
    </message>
    <message>
        <source>It was not kept. Try again.</source>
        <translation>Die Datei wurde verworfen. Erneut versuchen.</translation>
    </message>
    <message>
        <source>{file} is complete but could not be moved: {reason}.</source>
        <translation>{file} ist vollständig, konnte aber nicht verschoben werden: {reason}.</translation>
    </message>
    <message>
        <source>Close the program that uses the file and try again; nothing is downloaded twice.</source>
        <translation>Das Programm schließen, das die Datei verwendet, und erneut versuchen; nichts wird zweimal heruntergeladen.</translation>
    </message>
    <message>
        <source>The download was stopped.</source>
        <translation>Der Download wurde gestoppt.</translation>
    </message>
    <message>
        <source>Trying again…</source>
        <translation>Neuer Versuch…</translation>
    </message>
    <message>
        <source>The connection to {host} broke off.</source>
        <translation>Die Verbindung zu {host} ist abgebrochen.</translation>
    </message>
    <message>
        <source>{file} has another size on {host}.</source>
        <translation>{file} hat auf {host} eine andere Größe.</translation>
    </message>
    <message>
        <source>{file} could not be downloaded: the server sent an empty answer.</source>
        <translation>{file} konnte nicht heruntergeladen werden: Der Server hat eine leere Antwort gesendet.</translation>
    </message>
    <message>
        <source>Try again later.</source>
        <translation>Später erneut versuchen.</translation>
    </message>
    <message>
        <source>{file} has {offered} bytes on the server instead of {expected}.</source>
        <translation>{file} hat auf dem Server {offered} statt {expected} Byte.</translation>
    </message>
    <message>
        <source>It was not downloaded.</source>
        <translation>Die Datei wurde nicht heruntergeladen.</translation>
    </message>
    <message>
        <source>{file} is longer on the server than expected.</source>
        <translation>{file} ist auf dem Server länger als erwartet.</translation>
    </message>
    <message>
        <source>It was not kept.</source>
        <translation>Die Datei wurde verworfen.</translation>
    </message>
    <message>
        <source>{file} could not be downloaded: {host} sent a web page instead.</source>
        <translation>{file} konnte nicht heruntergeladen werden: {host} hat stattdessen eine Webseite gesendet.</translation>
    </message>
    <message>
        <source>The network may ask for a login: open a page in the browser, then try again.</source>
        <translation>Das Netzwerk verlangt vielleicht eine Anmeldung: eine Seite im Browser öffnen, dann erneut versuchen.</translation>
    </message>
    <message>
        <source>No draft model</source>
        <translation>Kein Entwurfsmodell</translation>
    </message>
    <message>
        <source>The chat itself can still be drafted from</source>
        <translation>Vorausraten aus dem Chat bleibt möglich</translation>
    </message>
    <message>
        <source>Something went wrong inside the engine.</source>
        <translation>In der Engine ist ein Fehler aufgetreten.</translation>
    </message>
    <message>
        <source>The answer so far is kept.</source>
        <translation>Die bisherige Antwort bleibt erhalten.</translation>
    </message>
    <message>
        <source>Weights</source>
        <translation>Gewichte</translation>
    </message>
    <message>
        <source>Context</source>
        <translation>Kontext</translation>
    </message>
    <message>
        <source>Arithmetic</source>
        <translation>Rechnen</translation>
    </message>
    <message>
        <source>Fixed cost</source>
        <translation>Grundaufwand</translation>
    </message>
    <message>
        <source>As loaded</source>
        <translation>Wie geladen</translation>
    </message>
    <message>
        <source>At 16 bits</source>
        <translation>Mit 16 Bit</translation>
    </message>
    <message>
        <source>The weights are held at {bits} bits already.</source>
        <translation>Die Gewichte haben bereits {bits} Bit.</translation>
    </message>
    <message>
        <source>Most weights are held at {bits} bits and read in full for every token.</source>
        <translation>Die meisten Gewichte haben {bits} Bit und werden für jedes Token vollständig gelesen.</translation>
    </message>
    <message>
        <source>Without GQA</source>
        <translation>Ohne GQA</translation>
    </message>
    <message>
        <source>Every query head has keys and values of its own.</source>
        <translation>Jeder Query-Head hat eigene Keys und Values.</translation>
    </message>
    <message>
        <source>{count} query heads share each head of keys and values (grouped-query attention).</source>
        <translation>Je {count} Query-Heads teilen sich einen Head für Keys und Values (Grouped-Query Attention).</translation>
    </message>
    <message>
        <source>Without its window</source>
        <translation>Ohne Fenster</translation>
    </message>
    <message>
        <source>Every layer reads the whole chat: there is no window.</source>
        <translation>Jede Schicht liest den ganzen Chat: Es gibt kein Fenster.</translation>
    </message>
    <message>
        <source>{count} of {layers} layers read the last {tokens} tokens only.</source>
        <translation>{count} von {layers} Schichten lesen nur die letzten {tokens} Tokens.</translation>
    </message>
    <message>
        <source>Moving data: {done} of {total}&#xa0;GB</source>
        <translation>Daten verschieben: {done} von {total}&#xa0;GB</translation>
    </message>
    <message>
        <source>Moving models: {done} of {total}&#xa0;GB</source>
        <translation>Modelle verschieben: {done} von {total}&#xa0;GB</translation>
    </message>
    <message>
        <source>Stop</source>
        <translation>Stoppen</translation>
    </message>
    <message>
        <source>The command line says where it is in this run.</source>
        <translation>Den Ort legt in diesem Lauf die Befehlszeile fest.</translation>
    </message>
    <message>
        <source>There are unfinished downloads. Wait for them or cancel them.</source>
        <translation>Es gibt unfertige Downloads. Abwarten oder abbrechen.</translation>
    </message>
    <message>
        <source>Moved to {path}.</source>
        <translation>Verschoben nach {path}.</translation>
    </message>
    <message>
        <source>{name} is not the name of a model.</source>
        <translation>{name} ist kein Modellname.</translation>
    </message>
    <message>
        <source>It reads owner/name.</source>
        <translation>Er hat die Form Besitzer/Name.</translation>
    </message>
    <message>
        <source>{host} sent no list of files for {repo}.</source>
        <translation>{host} hat keine Dateiliste für {repo} gesendet.</translation>
    </message>
    <message>
        <source>The vision part (mmproj) is left out: Decodeck reads text.</source>
        <translation>Der Bildteil (mmproj) wird ausgelassen: Decodeck liest Text.</translation>
    </message>
    <message>
        <source>Only pickled weights, which could run code.</source>
        <translation>Nur Gewichte im Pickle-Format, das Code ausführen könnte.</translation>
    </message>
    <message>
        <source>No GGUF or safetensors.</source>
        <translation>Weder GGUF noch safetensors.</translation>
    </message>
    <message numerus="yes">
        <source>{size} in %n file(s)</source>
        <translation>
            <numerusform>{size} in %n Datei</numerusform>
            <numerusform>{size} in %n Dateien</numerusform>
        </translation>
    </message>
    <message>
        <source>Looking…</source>
        <translation>Prüfung…</translation>
    </message>
    <message>
        <source>Accept its licence on the model page and add an access token; the download then goes on.</source>
        <translation>Auf der Modellseite die Lizenz akzeptieren und ein Zugangstoken hinzufügen; danach geht der Download weiter.</translation>
    </message>
    <message>
        <source>{repo} wants its licence accepted first.</source>
        <translation>Für {repo} muss zuerst die Lizenz akzeptiert werden.</translation>
    </message>
    <message>
        <source>There is no keyring on this computer: the token is kept until the program closes.</source>
        <translation>Auf diesem Computer gibt es keinen Schlüsselbund: Das Token bleibt nur erhalten, bis das Programm geschlossen wird.</translation>
    </message>
    <message>
        <source>Not looked at</source>
        <translation>Nicht geprüft</translation>
    </message>
    <message>
        <source>no licence named</source>
        <translation>keine Lizenz genannt</translation>
    </message>
    <message>
        <source>{count} million downloads</source>
        <translation>{count} Mio. Downloads</translation>
    </message>
    <message numerus="yes">
        <source>%n download(s)</source>
        <translation>
            <numerusform>%n Download</numerusform>
            <numerusform>%n Downloads</numerusform>
        </translation>
    </message>
    <message>
        <source>The header of this model is too large to look at before a download.</source>
        <translation>Die Kopfdaten dieses Modells sind zu groß für eine Prüfung vor dem Download.</translation>
    </message>
    <message>
        <source>This model lies in too many files to look at them before a download.</source>
        <translation>Dieses Modell besteht aus zu vielen Dateien für eine Prüfung vor dem Download.</translation>
    </message>
    <message>
        <source>config.json of {repo} is not what it should be.</source>
        <translation>config.json von {repo} hat nicht den erwarteten Inhalt.</translation>
    </message>
    <message>
        <source>{host} sent another part of the file than was asked for.</source>
        <translation>{host} hat einen anderen Teil der Datei gesendet als angefordert.</translation>
    </message>
    <message>
        <source>The file has {bytes} bytes on {host} instead of {expected}.</source>
        <translation>Die Datei hat auf {host} {bytes} statt {expected} Byte.</translation>
    </message>
    <message>
        <source>This is not an access token.</source>
        <translation>Das ist kein Zugangstoken.</translation>
    </message>
    <message>
        <source>It is one word, such as hf_ and 34 letters: copy it again.</source>
        <translation>Es ist ein einziges Wort, etwa hf_ und 34 Buchstaben: noch einmal kopieren.</translation>
    </message>
    <message>
        <source>{address} was not asked for.</source>
        <translation>{address} wurde nicht angefordert.</translation>
    </message>
    <message>
        <source>{host} sent far more than expected.</source>
        <translation>{host} hat weit mehr gesendet als erwartet.</translation>
    </message>
    <message>
        <source>{host} sent something else than a list.</source>
        <translation>{host} hat etwas anderes als eine Liste gesendet.</translation>
    </message>
    <message>
        <source>The network may ask for a login, or HF_ENDPOINT may be wrong.</source>
        <translation>Das Netzwerk verlangt vielleicht eine Anmeldung, oder HF_ENDPOINT ist falsch.</translation>
    </message>
    <message>
        <source>Accept it at {page} and add an access token of your account.</source>
        <translation>Die Lizenz auf {page} akzeptieren und ein Zugangstoken Ihres Kontos hinzufügen.</translation>
    </message>
    <message>
        <source>{host} has no model {repo}, or it is private.</source>
        <translation>{host} hat kein Modell {repo}, oder es ist privat.</translation>
    </message>
    <message>
        <source>Check the name.</source>
        <translation>Den Namen prüfen.</translation>
    </message>
    <message>
        <source>{repo} was changed on {host}: the file that was asked for is no longer there.</source>
        <translation>{repo} wurde auf {host} geändert: Die angeforderte Datei ist nicht mehr vorhanden.</translation>
    </message>
    <message>
        <source>Look at its files again.</source>
        <translation>Die Dateien erneut ansehen.</translation>
    </message>
    <message>
        <source>{host} does not accept the access token.</source>
        <translation>{host} akzeptiert das Zugangstoken nicht.</translation>
    </message>
    <message>
        <source>{host} refuses access to {repo}.</source>
        <translation>{host} verweigert den Zugriff auf {repo}.</translation>
    </message>
    <message>
        <source>The token may have ended, or lack the right to read. Add another one.</source>
        <translation>Das Token ist vielleicht abgelaufen oder hat kein Leserecht. Ein anderes hinzufügen.</translation>
    </message>
    <message>
        <source>{host} was asked too often (status 429). Wait {seconds} s.</source>
        <translation>Zu viele Anfragen an {host} (Status 429). {seconds} s warten.</translation>
    </message>
    <message>
        <source>{host} was asked too often (status 429).</source>
        <translation>Zu viele Anfragen an {host} (Status 429).</translation>
    </message>
    <message>
        <source>An access token raises the limit.</source>
        <translation>Mit einem Zugangstoken sind mehr Anfragen möglich.</translation>
    </message>
    <message>
        <source>messages of tools</source>
        <translation>Nachrichten von Werkzeugen</translation>
    </message>
    <message>
        <source>images and files</source>
        <translation>Bilder und Dateien</translation>
    </message>
    <message>
        <source>images and tools</source>
        <translation>Bilder und Werkzeugaufrufe</translation>
    </message>
    <message>
        <source>it was written by a newer version of this program</source>
        <translation>von einer neueren Version dieses Programms geschrieben</translation>
    </message>
    <message>
        <source>it has no message that can be read</source>
        <translation>keine lesbare Nachricht</translation>
    </message>
    <message numerus="yes">
        <source>it has more than %n message(s)</source>
        <translation>
            <numerusform>mehr als %n Nachricht</numerusform>
            <numerusform>mehr als %n Nachrichten</numerusform>
        </translation>
    </message>
    <message>
        <source>damaged messages</source>
        <translation>beschädigte Nachrichten</translation>
    </message>
    <message numerus="yes">
        <source>it has more than %n chat(s); the rest was left out</source>
        <translation>
            <numerusform>mehr als %n Chat; der Rest wurde ausgelassen</numerusform>
            <numerusform>mehr als %n Chats; der Rest wurde ausgelassen</numerusform>
        </translation>
    </message>
    <message>
        <source>it is larger than {most} MB</source>
        <translation>größer als {most} MB</translation>
    </message>
    <message>
        <source>the archive is damaged or locked</source>
        <translation>Archiv beschädigt oder gesperrt</translation>
    </message>
    <message>
        <source>it is too large</source>
        <translation>zu groß</translation>
    </message>
    <message>
        <source>it is not UTF-8 text</source>
        <translation>kein UTF-8-Text</translation>
    </message>
    <message>
        <source>it is nested too deeply</source>
        <translation>zu tief verschachtelt</translation>
    </message>
    <message>
        <source>it is not whole JSON ({reason})</source>
        <translation>kein vollständiges JSON ({reason})</translation>
    </message>
    <message>
        <source>no chat in a known format was found in it</source>
        <translation>kein Chat in einem bekannten Format gefunden</translation>
    </message>
    <message numerus="yes">
        <source>%n line(s) in it could not be read</source>
        <translation>
            <numerusform>%n Zeile nicht lesbar</numerusform>
            <numerusform>%n Zeilen nicht lesbar</numerusform>
        </translation>
    </message>
    <message>
        <source>there is no chat in it</source>
        <translation>kein Chat enthalten</translation>
    </message>
    <message>
        <source>it has no message with text</source>
        <translation>keine Nachricht mit Text</translation>
    </message>
    <message>
        <source>Something went wrong: {kind}.</source>
        <translation>Ein Fehler ist aufgetreten: {kind}.</translation>
    </message>
    <message>
        <source>Copies</source>
        <translation>Kopien</translation>
    </message>
    <message>
        <source>This chat</source>
        <translation>Dieser Chat</translation>
    </message>
    <message>
        <source>Nothing is measured yet: the dashed lines are what this computer should reach.</source>
        <translation>Noch ist nichts gemessen: Die gestrichelten Linien zeigen, was dieser Computer erreichen sollte.</translation>
    </message>
    <message>
        <source>An answer is being written. The lab can run when it is done.</source>
        <translation>Gerade wird eine Antwort geschrieben. Danach kann das Labor messen.</translation>
    </message>
    <message>
        <source>Open a chat with a question in it: copies of it are what runs here.</source>
        <translation>Einen Chat mit einer Frage öffnen: Gemessen werden Kopien davon.</translation>
    </message>
    <message>
        <source>running</source>
        <comment>the Batch lab</comment>
        <translation>läuft</translation>
    </message>
    <message>
        <source>Run this chat</source>
        <translation>Chat messen</translation>
    </message>
    <message>
        <source>Run again</source>
        <translation>Erneut messen</translation>
    </message>
    <message>
        <source>Run</source>
        <translation>Messen</translation>
    </message>
    <message>
        <source>Speed by batch size</source>
        <translation>Tempo nach Batchgröße</translation>
    </message>
    <message>
        <source>Copies of this chat</source>
        <translation>Kopien dieses Chats</translation>
    </message>
    <message>
        <source>Saved as {name}.</source>
        <translation>Gespeichert als {name}.</translation>
    </message>
    <message>
        <source>Beginning</source>
        <translation>Beginnt</translation>
    </message>
    <message>
        <source>Batch {copies} of {most}, {tokens} tokens · {left}</source>
        <translation>Batch {copies} von {most}, {tokens} Tokens · {left}</translation>
    </message>
    <message>
        <source>{failed} of {count} points failed.</source>
        <translation>{failed} von {count} Messpunkten fehlgeschlagen.</translation>
    </message>
    <message>
        <source>Stopped at the beginning; results so far are kept.</source>
        <translation>Gleich zu Beginn gestoppt; bisherige Ergebnisse bleiben erhalten.</translation>
    </message>
    <message>
        <source>Stopped at the beginning; nothing was measured.</source>
        <translation>Gleich zu Beginn gestoppt; nichts wurde gemessen.</translation>
    </message>
    <message>
        <source>Stopped at batch {copies}; nothing was measured.</source>
        <translation>Bei Batch {copies} gestoppt; nichts wurde gemessen.</translation>
    </message>
    <message>
        <source>Stopped at batch {copies}; results so far are kept.</source>
        <translation>Bei Batch {copies} gestoppt; bisherige Ergebnisse bleiben erhalten.</translation>
    </message>
    <message>
        <source>reading the prompts</source>
        <translation>liest die Prompts ein</translation>
    </message>
    <message>
        <source>{each} each · {all}&#xa0;tok/s in all</source>
        <translation>je {each} · {all}&#xa0;tok/s gesamt</translation>
    </message>
    <message>
        <source>(about {seconds}&#xa0;s)</source>
        <translation>(etwa {seconds}&#xa0;s)</translation>
    </message>
    <message>
        <source>(about {minutes}&#xa0;min)</source>
        <translation>(etwa {minutes}&#xa0;min)</translation>
    </message>
    <message>
        <source>batch size (copies that are answered together)</source>
        <translation>Batchgröße (gemeinsam beantwortete Kopien)</translation>
    </message>
    <message>
        <source>All together</source>
        <translation>Alle zusammen</translation>
    </message>
    <message>
        <source>Each request</source>
        <translation>Je Anfrage</translation>
    </message>
    <message>
        <source>One alone</source>
        <translation>Eine allein</translation>
    </message>
    <message>
        <source>{count} together</source>
        <translation>{count} zusammen</translation>
    </message>
    <message>
        <source>Each of {count}</source>
        <translation>Jede von {count}</translation>
    </message>
    <message>
        <source>Speed by context</source>
        <translation>Tempo nach Kontext</translation>
    </message>
    <message>
        <source>tokens that each request holds</source>
        <translation>Tokens je Anfrage</translation>
    </message>
    <message>
        <source>{speed} tok/s at {place}</source>
        <translation>{speed} tok/s bei {place}</translation>
    </message>
    <message>
        <source>1 copy of {tokens} tokens</source>
        <translation>1 Kopie mit {tokens} Tokens</translation>
    </message>
    <message>
        <source>{copies} copies of {tokens} tokens</source>
        <translation>{copies} Kopien mit {tokens} Tokens</translation>
    </message>
    <message>
        <source>{line}, {place}: failed. {reason} Predicted {predicted}&#xa0;tok/s</source>
        <translation>{line}, {place}: fehlgeschlagen. {reason} Erwartet: {predicted}&#xa0;tok/s</translation>
    </message>
    <message>
        <source>{line}, {place}: {speed}&#xa0;tok/s, predicted {predicted}, error {error}</source>
        <translation>{line}, {place}: {speed}&#xa0;tok/s, erwartet {predicted}, Fehler {error}</translation>
    </message>
    <message>
        <source>best trade: {work}× the work, as fast each</source>
        <translation>beste Balance: {work}× Arbeit, einzeln gleich schnell</translation>
    </message>
    <message>
        <source>best trade: {work}× the work, {slower}× slower each</source>
        <translation>beste Balance: {work}× Arbeit, einzeln {slower}× langsamer</translation>
    </message>
    <message>
        <source>{speed}&#xa0;tok/s, without drafting.</source>
        <translation>{speed}&#xa0;tok/s, ohne Vorausraten.</translation>
    </message>
    <message>
        <source>Best for one person</source>
        <translation>Optimal für eine Person</translation>
    </message>
    <message>
        <source>Best trade</source>
        <translation>Beste Balance</translation>
    </message>
    <message>
        <source>Most output</source>
        <translation>Max. Durchsatz</translation>
    </message>
    <message>
        <source>{all}&#xa0;tok/s in all, {each} for each.</source>
        <translation>{all}&#xa0;tok/s insgesamt, {each} je Anfrage.</translation>
    </message>
    <message>
        <source>The wait for the first token is {times} times that of batch {copies}.</source>
        <translation>Auf das erste Token wartet man {times}-mal so lange wie bei Batch {copies}.</translation>
    </message>
    <message>
        <source>Compute-bound from batch {copies}: weights are read once for the whole batch, so arithmetic becomes the limit</source>
        <translation>Ab Batch {copies} rechenbegrenzt: Die Gewichte werden einmal für den ganzen Batch gelesen, daher wird das Rechnen zur Grenze</translation>
    </message>
    <message>
        <source>Memory-bound throughout: more requests at once cost each of them little</source>
        <translation>Durchweg speicherbegrenzt: Mehr gleichzeitige Anfragen bremsen jede einzelne nur wenig</translation>
    </message>
    <message>
        <source>Memory is not the limit here: the model is small, and what is fixed for each step counts more</source>
        <translation>Der Speicher ist hier nicht die Grenze: Das Modell ist klein, und der Grundaufwand je Schritt wiegt schwerer</translation>
    </message>
    <message>
        <source>Batch</source>
        <translation>Batch</translation>
    </message>
    <message>
        <source>tok/s</source>
        <translation>tok/s</translation>
    </message>
    <message>
        <source>predicted</source>
        <translation>erwartet</translation>
    </message>
    <message>
        <source>Error</source>
        <translation>Fehler</translation>
    </message>
    <message>
        <source>First token</source>
        <translation>Erstes Token</translation>
    </message>
    <message>
        <source>RAM</source>
        <translation>RAM</translation>
    </message>
    <message>
        <source>Memory</source>
        <translation>Speicher</translation>
    </message>
    <message>
        <source>Limited by</source>
        <translation>Grenze</translation>
    </message>
    <message>
        <source>memory bus</source>
        <translation>Speicherbus</translation>
    </message>
    <message>
        <source>compute</source>
        <translation>Rechnen</translation>
    </message>
    <message>
        <source>{least} to {most}</source>
        <translation>{least} bis {most}</translation>
    </message>
    <message>
        <source>one at a time</source>
        <translation>nacheinander</translation>
    </message>
    <message>
        <source>{count} at once, more wait</source>
        <translation>{count} zugleich, weitere warten</translation>
    </message>
    <message>
        <source>Prompt · answer</source>
        <translation>Prompt · Antwort</translation>
    </message>
    <message>
        <source>{prompt} · {answer} tokens</source>
        <translation>{prompt} · {answer} Tokens</translation>
    </message>
    <message>
        <source>Repeats</source>
        <translation>Läufe</translation>
    </message>
    <message>
        <source>{count}, median shown</source>
        <translation>{count}, Median gezeigt</translation>
    </message>
    <message>
        <source>KV precision</source>
        <translation>KV-Präzision</translation>
    </message>
    <message>
        <source>{bits}-bit, a cache each</source>
        <translation>{bits} Bit, je ein Cache</translation>
    </message>
    <message>
        <source>Drafting</source>
        <translation>Vorausraten</translation>
    </message>
    <message>
        <source>off</source>
        <translation>aus</translation>
    </message>
    <message>
        <source>In a chat</source>
        <translation>Im Chat</translation>
    </message>
    <message>
        <source>{when}, took {seconds}&#xa0;s</source>
        <translation>{when}, Dauer {seconds}&#xa0;s</translation>
    </message>
    <message>
        <source>Finished</source>
        <translation>Beendet</translation>
    </message>
    <message>
        <source>Stopped</source>
        <translation>Angehalten</translation>
    </message>
    <message>
        <source>Failed</source>
        <translation>Fehlgeschlagen</translation>
    </message>
    <message>
        <source>tok/s · median error {error}</source>
        <translation>tok/s · Medianfehler {error}</translation>
    </message>
    <message>
        <source>{when}, after {seconds}&#xa0;s</source>
        <translation>{when}, nach {seconds}&#xa0;s</translation>
    </message>
    <message>
        <source>today {time}</source>
        <translation>heute {time}</translation>
    </message>
    <message numerus="yes">
        <source>%n token(s)</source>
        <translation>
            <numerusform>%n Token</numerusform>
            <numerusform>%n Tokens</numerusform>
        </translation>
    </message>
    <message>
        <source>Context full: {tokens} in the middle left out</source>
        <translation>Kontext voll: {tokens} in der Mitte ausgelassen</translation>
    </message>
    <message numerus="yes">
        <source>%n earlier message(s)</source>
        <translation>
            <numerusform>%n frühere Nachricht</numerusform>
            <numerusform>%n frühere Nachrichten</numerusform>
        </translation>
    </message>
    <message>
        <source>Context full: {messages} ({tokens}) left out</source>
        <translation>Kontext voll: {messages} ({tokens}) ausgelassen</translation>
    </message>
    <message>
        <source>The list of models could not be saved.</source>
        <translation>Die Liste der Modelle konnte nicht gespeichert werden.</translation>
    </message>
    <message>
        <source>{model} is on this computer.</source>
        <translation>{model} ist auf diesem Computer.</translation>
    </message>
    <message>
        <source>Choose it with the chip.</source>
        <translation>Über die Modellanzeige oben wählen.</translation>
    </message>
    <message numerus="yes">
        <source>%n model(s)</source>
        <translation>
            <numerusform>%n Modell</numerusform>
            <numerusform>%n Modelle</numerusform>
        </translation>
    </message>
    <message>
        <source>empty</source>
        <comment>no model on this computer</comment>
        <translation>leer</translation>
    </message>
    <message>
        <source>The download was paused.</source>
        <translation>Der Download wurde pausiert.</translation>
    </message>
    <message>
        <source>Cannot run here</source>
        <translation>Läuft hier nicht</translation>
    </message>
    <message>
        <source>With a context of {tokens} tokens, half full.</source>
        <translation>Bei einem Kontext von {tokens} Tokens, halb gefüllt.</translation>
    </message>
    <message>
        <source>Does not fit · {size} short</source>
        <translation>Passt nicht · {size} fehlen</translation>
    </message>
    <message>
        <source>By its size alone.</source>
        <translation>Allein nach der Größe beurteilt.</translation>
    </message>
    <message>
        <source>{speed}&#xa0;tok/s</source>
        <translation>{speed}&#xa0;tok/s</translation>
    </message>
    <message>
        <source>±{share} predicted</source>
        <translation>erwartet ±{share}</translation>
    </message>
    <message>
        <source>{path} is there again: {model} was not put back.</source>
        <translation>{path} ist wieder vorhanden: {model} wurde nicht wiederhergestellt.</translation>
    </message>
    <message>
        <source>{path} belongs to another program.</source>
        <translation>{path} gehört zu einem anderen Programm.</translation>
    </message>
    <message>
        <source>Delete it there, or in its folder by hand.</source>
        <translation>Dort löschen oder von Hand im Ordner.</translation>
    </message>
    <message>
        <source>{folder} holds too many files: not all of it was looked at.</source>
        <translation>{folder} enthält zu viele Dateien: Nicht alles wurde durchsucht.</translation>
    </message>
    <message numerus="yes">
        <source>Only the first %n model(s) of {folder} are listed.</source>
        <translation>
            <numerusform>Nur %n Modell aus {folder} ist aufgeführt.</numerusform>
            <numerusform>Nur die ersten %n Modelle aus {folder} sind aufgeführt.</numerusform>
        </translation>
    </message>
    <message>
        <source>{folder} is too deep: its sub-folders were not looked at.</source>
        <translation>{folder} ist zu tief verschachtelt: Die Unterordner wurden nicht durchsucht.</translation>
    </message>
    <message>
        <source>vision part</source>
        <translation>Bildteil</translation>
    </message>
    <message>
        <source>used {day}</source>
        <translation>{day} genutzt</translation>
    </message>
    <message>
        <source>vision part left out</source>
        <translation>ohne Bildteil</translation>
    </message>
    <message>
        <source>{tokens}&#xa0;context</source>
        <translation>{tokens}&#xa0;Kontext</translation>
    </message>
    <message>
        <source>chat template</source>
        <translation>Chatvorlage</translation>
    </message>
    <message>
        <source>no chat template</source>
        <translation>keine Chatvorlage</translation>
    </message>
    <message>
        <source>{count}&#xa0;files</source>
        <translation>{count}&#xa0;Dateien</translation>
    </message>
    <message>
        <source>Paused {percent}</source>
        <translation>Pausiert {percent}</translation>
    </message>
    <message>
        <source>Downloading {percent}</source>
        <translation>Download {percent}</translation>
    </message>
    <message>
        <source>today</source>
        <translation>heute</translation>
    </message>
    <message>
        <source>yesterday</source>
        <translation>gestern</translation>
    </message>
    <message>
        <source>{days} days ago</source>
        <translation>vor {days} Tagen</translation>
    </message>
    <message>
        <source>With {files}.</source>
        <translation>Mit {files}.</translation>
    </message>
    <message>
        <source>Left out: {files} (pictures are not read).</source>
        <translation>Ausgelassen: {files} (Bilder werden nicht gelesen).</translation>
    </message>
    <message>
        <source>{bits}&#xa0;bits</source>
        <translation>{bits}&#xa0;Bit</translation>
    </message>
    <message>
        <source>{name} cannot be used.</source>
        <translation>{name} ist nicht verwendbar.</translation>
    </message>
    <message>
        <source>{model} does not fit in memory.</source>
        <translation>{model} passt nicht in den Speicher.</translation>
    </message>
    <message>
        <source>Load anyway</source>
        <translation>Trotzdem laden</translation>
    </message>
    <message>
        <source>{model} could not be loaded.</source>
        <translation>{model} konnte nicht geladen werden.</translation>
    </message>
    <message>
        <source>These settings did not load.</source>
        <translation>Mit diesen Einstellungen ist das Laden fehlgeschlagen.</translation>
    </message>
    <message>
        <source>What was loaded before is coming back.</source>
        <translation>Der vorherige Stand wird wieder geladen.</translation>
    </message>
    <message>
        <source>Load with the usual settings</source>
        <translation>Mit üblichen Einstellungen laden</translation>
    </message>
    <message>
        <source>Choose another file</source>
        <translation>Andere Datei wählen</translation>
    </message>
    <message>
        <source>Chats are as they were a second before. The report is on this computer only; it holds no text.</source>
        <translation>Die Chats sind auf dem Stand eine Sekunde vor dem Absturz. Der Bericht liegt nur auf diesem Computer; er enthält keine Texte.</translation>
    </message>
    <message>
        <source>Decodeck crashed when it last ran.</source>
        <translation>Decodeck ist beim letzten Mal abgestürzt.</translation>
    </message>
    <message>
        <source>Nothing you wrote is lost. If it happens again, restart the program.</source>
        <translation>Nichts Geschriebenes ist verloren. Wenn es wieder geschieht, das Programm neu starten.</translation>
    </message>
    <message>
        <source>Something went wrong in the window.</source>
        <translation>Im Fenster ist ein Fehler aufgetreten.</translation>
    </message>
    <message>
        <source>It is sent when the model is ready.</source>
        <translation>Sie wird gesendet, sobald das Modell bereit ist.</translation>
    </message>
    <message>
        <source>It is sent when a model is ready: press Enter to use the starter, which is on this computer, or choose a model.</source>
        <translation>Sie wird gesendet, sobald ein Modell bereit ist: Enter drücken, um das Startmodell zu verwenden, das auf diesem Computer liegt, oder ein Modell wählen.</translation>
    </message>
    <message>
        <source>It is sent when a model is ready: press Enter to download the starter, or choose a model.</source>
        <translation>Sie wird gesendet, sobald ein Modell bereit ist: Enter drücken, um das Startmodell herunterzuladen, oder ein Modell wählen.</translation>
    </message>
    <message>
        <source>Resume the download</source>
        <translation>Download fortsetzen</translation>
    </message>
    <message>
        <source>Use the starter</source>
        <translation>Startmodell verwenden</translation>
    </message>
    <message>
        <source>Download the starter</source>
        <translation>Startmodell herunterladen</translation>
    </message>
    <message>
        <source>Your message waits: {title}</source>
        <translation>Ihre Nachricht wartet: {title}</translation>
    </message>
    <message>
        <source>No draft model is used.</source>
        <translation>Es wird kein Entwurfsmodell verwendet.</translation>
    </message>
    <message>
        <source>Its weights lie in several blobs; Decodeck reads one GGUF file.</source>
        <translation>Die Gewichte liegen in mehreren Blobs; Decodeck liest eine einzelne GGUF-Datei.</translation>
    </message>
    <message>
        <source>Its weights are not in the store. Run: ollama pull {name}</source>
        <translation>Die Gewichte fehlen in der Ablage von Ollama. Ausführen: ollama pull {name}</translation>
    </message>
    <message>
        <source>a system library</source>
        <translation>eine Systembibliothek</translation>
    </message>
    <message>
        <source>The window cannot open: {library} is missing.</source>
        <translation>Das Fenster kann nicht geöffnet werden: {library} fehlt.</translation>
    </message>
    <message>
        <source>On Debian or Ubuntu: {command}</source>
        <translation>Unter Debian oder Ubuntu: {command}</translation>
    </message>
    <message>
        <source>The window cannot open: the display {name} does not answer.</source>
        <translation>Das Fenster kann nicht geöffnet werden: Das Display {name} antwortet nicht.</translation>
    </message>
    <message>
        <source>Start decodeck in a graphical session, or use decodeck chat in this terminal.</source>
        <translation>decodeck in einer grafischen Sitzung starten oder decodeck chat in diesem Terminal verwenden.</translation>
    </message>
    <message>
        <source>The window cannot open: there is no display.</source>
        <translation>Das Fenster kann nicht geöffnet werden: Es gibt kein Display.</translation>
    </message>
    <message>
        <source>Predictions rest on what was measured of this computer, ±{share}.</source>
        <translation>Die Vorhersagen beruhen auf Messungen an diesem Computer, ±{share}.</translation>
    </message>
    <message>
        <source>Predictions rest on what was measured of this computer, corrected by real answers, ±{share}.</source>
        <translation>Die Vorhersagen beruhen auf Messungen an diesem Computer, berichtigt durch echte Antworten, ±{share}.</translation>
    </message>
    <message>
        <source>Predictions rest on rough figures for a computer of this kind: what this model computes with was not measured here, ±{share}.</source>
        <translation>Die Vorhersagen beruhen auf groben Werten für einen Computer dieser Art: Womit dieses Modell rechnet, wurde hier nicht gemessen, ±{share}.</translation>
    </message>
    <message>
        <source>Jan</source>
        <translation>Jan</translation>
    </message>
    <message>
        <source>Feb</source>
        <translation>Feb</translation>
    </message>
    <message>
        <source>Mar</source>
        <translation>Mär</translation>
    </message>
    <message>
        <source>Apr</source>
        <translation>Apr</translation>
    </message>
    <message>
        <source>May</source>
        <translation>Mai</translation>
    </message>
    <message>
        <source>Jun</source>
        <translation>Jun</translation>
    </message>
    <message>
        <source>Jul</source>
        <translation>Jul</translation>
    </message>
    <message>
        <source>Aug</source>
        <translation>Aug</translation>
    </message>
    <message>
        <source>Sep</source>
        <translation>Sep</translation>
    </message>
    <message>
        <source>Oct</source>
        <translation>Okt</translation>
    </message>
    <message>
        <source>Nov</source>
        <translation>Nov</translation>
    </message>
    <message>
        <source>Dec</source>
        <translation>Dez</translation>
    </message>
    <message>
        <source>Memory was short.</source>
        <translation>Der Speicher war knapp.</translation>
    </message>
    <message>
        <source>Another program used the cores.</source>
        <translation>Ein anderes Programm hat die Kerne belegt.</translation>
    </message>
    <message>
        <source>Another program used the memory bus.</source>
        <translation>Ein anderes Programm hat den Speicherbus belegt.</translation>
    </message>
    <message>
        <source>Other machines of the host took processor time.</source>
        <translation>Andere virtuelle Maschinen des Hosts haben Prozessorzeit beansprucht.</translation>
    </message>
    <message>
        <source>Another chat&apos;s message was read meanwhile.</source>
        <translation>Währenddessen wurde die Nachricht eines anderen Chats eingelesen.</translation>
    </message>
    <message>
        <source>The processor slowed itself down.</source>
        <translation>Der Prozessor hat sich selbst gedrosselt.</translation>
    </message>
    <message>
        <source>{rate}&#xa0;GB/s are read from memory.</source>
        <translation>Aus dem Speicher werden {rate}&#xa0;GB/s gelesen.</translation>
    </message>
    <message>
        <source>This computer was measured.</source>
        <translation>Dieser Computer wurde vermessen.</translation>
    </message>
    <message>
        <source>Past predictions could not be kept.</source>
        <translation>Frühere Vorhersagen konnten nicht gespeichert werden.</translation>
    </message>
    <message>
        <source>Answers are {share} slower than predicted.</source>
        <translation>Antworten sind {share} langsamer als erwartet.</translation>
    </message>
    <message>
        <source>Answers are {share} faster than predicted.</source>
        <translation>Antworten sind {share} schneller als erwartet.</translation>
    </message>
    <message>
        <source>This computer may have changed. Measuring it again takes about 5 seconds.</source>
        <translation>Dieser Computer hat sich vielleicht verändert. Eine neue Messung dauert etwa 5 Sekunden.</translation>
    </message>
    <message>
        <source>Measure again</source>
        <translation>Erneut messen</translation>
    </message>
    <message>
        <source>This computer was not measured yet. Measuring it takes about 5 seconds.</source>
        <translation>Dieser Computer wurde noch nicht gemessen. Eine Messung dauert etwa 5 Sekunden.</translation>
    </message>
    <message>
        <source>Measure</source>
        <translation>Messen</translation>
    </message>
    <message>
        <source>{tokens} of {context} tokens in the chat</source>
        <translation>{tokens} von {context} Tokens im Chat</translation>
    </message>
    <message>
        <source>No drafts were checked in this answer, so nothing is known of how often they are right here.</source>
        <translation>In dieser Antwort wurden keine Entwürfe geprüft; wie oft sie hier stimmen, ist daher nicht bekannt.</translation>
    </message>
    <message>
        <source>This computer is being measured.</source>
        <translation>Dieser Computer wird vermessen.</translation>
    </message>
    <message>
        <source>It takes about 5 seconds, after the answers that are being written.</source>
        <translation>Das dauert etwa 5 Sekunden und beginnt nach den Antworten, die gerade geschrieben werden.</translation>
    </message>
    <message>
        <source>{day} {month} {time}</source>
        <comment>a date</comment>
        <translation>{day}. {month} {time}</translation>
    </message>
    <message>
        <source>{share} of {count} guesses a step were right here.</source>
        <translation>Hier waren {share} von {count} geratenen Tokens je Schritt richtig.</translation>
    </message>
    <message>
        <source>Quickest: {count} guesses a step.</source>
        <translation>Am schnellsten: {count} je Schritt geraten.</translation>
    </message>
    <message>
        <source>No guesses at all would be quickest.</source>
        <translation>Ganz ohne Vorausraten wäre es am schnellsten.</translation>
    </message>
    <message>
        <source>No answer was long enough yet. One of 16 tokens sets predicted beside measured.</source>
        <translation>Noch war keine Antwort lang genug. Ab 16 Tokens stehen Erwartung und Messung nebeneinander.</translation>
    </message>
    <message numerus="yes">
        <source>Median error of the %n answer(s) like the last one: {error}.</source>
        <translation>
            <numerusform>Fehler der %n Antwort, die der letzten gleicht: {error}.</numerusform>
            <numerusform>Medianfehler der %n Antworten, die der letzten gleichen: {error}.</numerusform>
        </translation>
    </message>
    <message>
        <source>A preset is a small JSON file that this program has written.</source>
        <translation>Eine Vorlage ist eine kleine JSON-Datei, die dieses Programm geschrieben hat.</translation>
    </message>
    <message>
        <source>{file} is too large for a preset.</source>
        <translation>{file} ist zu groß für eine Vorlage.</translation>
    </message>
    <message>
        <source>{file} is not a preset.</source>
        <translation>{file} ist keine Vorlage.</translation>
    </message>
    <message>
        <source>{file} comes from a newer version.</source>
        <translation>{file} stammt aus einer neueren Version.</translation>
    </message>
    <message>
        <source>Update this program to read it.</source>
        <translation>Zum Lesen dieses Programm aktualisieren.</translation>
    </message>
    <message>
        <source>The instructions in {file} are too long.</source>
        <translation>Die Anweisungen in {file} sind zu lang.</translation>
    </message>
    <message numerus="yes">
        <source>At most %n character(s) of instructions can be kept.</source>
        <translation>
            <numerusform>Anweisungen dürfen höchstens %n Zeichen lang sein.</numerusform>
            <numerusform>Anweisungen dürfen höchstens %n Zeichen lang sein.</numerusform>
        </translation>
    </message>
    <message>
        <source>{file} sets nothing.</source>
        <translation>{file} legt nichts fest.</translation>
    </message>
    <message>
        <source>Preset</source>
        <translation>Vorlage</translation>
    </message>
    <message>
        <source>{count} presets are kept at most.</source>
        <translation>Höchstens {count} Vorlagen werden aufbewahrt.</translation>
    </message>
    <message>
        <source>Delete one first.</source>
        <translation>Zuerst eine löschen.</translation>
    </message>
    <message>
        <source>not measured</source>
        <translation>nicht gemessen</translation>
    </message>
    <message>
        <source>Perplexity: between about how many next words the model wavers; lower is better. KL: how far its guesses stray from those of 32-bit; 0 is not at all.</source>
        <translation>Perplexität: zwischen etwa wie vielen möglichen nächsten Wörtern das Modell schwankt; niedriger ist besser. KL: wie weit seine Vorhersagen von denen mit 32 Bit abweichen; 0 heißt gar nicht.</translation>
    </message>
    <message>
        <source>Hardly a difference to 32-bit</source>
        <translation>Kaum ein Unterschied zu 32 Bit</translation>
    </message>
    <message>
        <source>A small loss</source>
        <translation>Geringer Verlust</translation>
    </message>
    <message>
        <source>A clear loss</source>
        <translation>Deutlicher Verlust</translation>
    </message>
    <message>
        <source>Measured on {tokens} tokens of {book} with native kernels; those here differ a little.</source>
        <translation>Gemessen an {tokens} Tokens aus {book} mit nativen Kerneln; die hiesigen weichen ein wenig ab.</translation>
    </message>
    <message>
        <source>Measured on {tokens} tokens of {book} with torch&apos;s kernels; those here differ a little.</source>
        <translation>Gemessen an {tokens} Tokens aus {book} mit den Kerneln von torch; die hiesigen weichen ein wenig ab.</translation>
    </message>
    <message>
        <source>A heavy loss</source>
        <translation>Starker Verlust</translation>
    </message>
    <message>
        <source>perplexity {figure}</source>
        <translation>Perplexität {figure}</translation>
    </message>
    <message>
        <source>Quality: perplexity {figure}. The other formats are compared with this one.</source>
        <translation>Qualität: Perplexität {figure}. Mit diesem Format werden die anderen verglichen.</translation>
    </message>
    <message>
        <source>{verdict}: perplexity {figure}, {change}; KL {kl}.</source>
        <translation>{verdict}: Perplexität {figure}, {change}; KL {kl}.</translation>
    </message>
    <message>
        <source>Measured on {tokens} tokens of {book}.</source>
        <translation>Gemessen an {tokens} Tokens aus {book}.</translation>
    </message>
    <message>
        <source>Quality not measured.</source>
        <translation>Qualität nicht gemessen.</translation>
    </message>
    <message>
        <source>Quality not measured. To measure it: {command}</source>
        <translation>Qualität nicht gemessen. Befehl zum Messen: {command}</translation>
    </message>
    <message>
        <source>as in 32-bit</source>
        <translation>wie bei 32 Bit</translation>
    </message>
    <message>
        <source>{percent} below 32-bit</source>
        <translation>{percent} unter 32 Bit</translation>
    </message>
    <message>
        <source>{percent} above 32-bit</source>
        <translation>{percent} über 32 Bit</translation>
    </message>
    <message>
        <source>32-bit</source>
        <translation>32 Bit</translation>
    </message>
    <message>
        <source>16-bit</source>
        <translation>16 Bit</translation>
    </message>
    <message>
        <source>8-bit</source>
        <translation>8 Bit</translation>
    </message>
    <message>
        <source>4-bit</source>
        <translation>4 Bit</translation>
    </message>
    <message>
        <source>{bits}-bit</source>
        <translation>{bits} Bit</translation>
    </message>
    <message>
        <source>{share} of drafts accepted</source>
        <translation>{share} der Entwürfe angenommen</translation>
    </message>
    <message numerus="yes">
        <source>%n token(s) so far</source>
        <translation>
            <numerusform>bisher %n Token</numerusform>
            <numerusform>bisher %n Tokens</numerusform>
        </translation>
    </message>
    <message>
        <source>first token {seconds}&#xa0;s</source>
        <translation>erstes Token {seconds}&#xa0;s</translation>
    </message>
    <message>
        <source>{total} RAM, {free} free</source>
        <translation>{total} RAM, {free} frei</translation>
    </message>
    <message numerus="yes">
        <source>%n core(s)</source>
        <translation>
            <numerusform>%n Kern</numerusform>
            <numerusform>%n Kerne</numerusform>
        </translation>
    </message>
    <message>
        <source>Only model files are downloaded; chats stay here</source>
        <translation>Nur Modelldateien werden heruntergeladen; Chats bleiben hier</translation>
    </message>
    <message>
        <source>Nothing leaves this computer</source>
        <translation>Nichts verlässt diesen Computer</translation>
    </message>
    <message>
        <source>Weights are read by {kernels}.</source>
        <translation>Die Gewichte werden mit {kernels} gelesen.</translation>
    </message>
    <message>
        <source>{millions} M parameters · {bits} bits · {size} GB</source>
        <translation>{millions} Mio. Parameter · {bits} Bit · {size} GB</translation>
    </message>
    <message>
        <source>Waiting for room: another chat is being answered</source>
        <translation>Warten auf Platz: Ein anderer Chat wird beantwortet</translation>
    </message>
    <message>
        <source>Being written in another window</source>
        <translation>Wird in einem anderen Fenster geschrieben</translation>
    </message>
    <message>
        <source>Recovered chat</source>
        <translation>Geretteter Chat</translation>
    </message>
    <message>
        <source>one of {choices}</source>
        <translation>einer der Werte {choices}</translation>
    </message>
    <message>
        <source>on or off</source>
        <translation>on oder off</translation>
    </message>
    <message>
        <source>a text</source>
        <translation>ein Text</translation>
    </message>
    <message>
        <source>a text of at most {most} characters that can be seen</source>
        <translation>ein Text von höchstens {most} sichtbaren Zeichen</translation>
    </message>
    <message>
        <source>{number} or none</source>
        <translation>{number} oder leer</translation>
    </message>
    <message>
        <source>set in the window</source>
        <translation>nur die Einstellung im Fenster</translation>
    </message>
    <message>
        <source>auto, cpu, mps, cuda:0 or xpu:0</source>
        <translation>auto, cpu, mps, cuda:0 oder xpu:0</translation>
    </message>
    <message>
        <source>the full path of a folder, or none</source>
        <translation>der volle Pfad eines Ordners oder leer</translation>
    </message>
    <message>
        <source>Appearance</source>
        <translation>Darstellung</translation>
    </message>
    <message>
        <source>Models and memory</source>
        <translation>Modelle und Speicher</translation>
    </message>
    <message>
        <source>Answers</source>
        <translation>Antworten</translation>
    </message>
    <message>
        <source>Costs</source>
        <translation>Kosten</translation>
    </message>
    <message>
        <source>System</source>
        <translation>System</translation>
    </message>
    <message>
        <source>Light</source>
        <translation>Hell</translation>
    </message>
    <message>
        <source>Dark</source>
        <translation>Dunkel</translation>
    </message>
    <message>
        <source>Strict</source>
        <translation>Streng</translation>
    </message>
    <message>
        <source>Relaxed</source>
        <translation>Locker</translation>
    </message>
    <message>
        <source>Off</source>
        <translation>Aus</translation>
    </message>
    <message>
        <source>Quality</source>
        <translation>Qualität</translation>
    </message>
    <message>
        <source>Speed</source>
        <translation>Tempo</translation>
    </message>
    <message>
        <source>Auto</source>
        <translation>Auto</translation>
    </message>
    <message>
        <source>On</source>
        <translation>Ein</translation>
    </message>
    <message>
        <source>Oldest</source>
        <translation>Älteste</translation>
    </message>
    <message>
        <source>Middle</source>
        <translation>Mitte</translation>
    </message>
    <message>
        <source>N-gram</source>
        <translation>N-Gramm</translation>
    </message>
    <message>
        <source>Model</source>
        <translation>Modell</translation>
    </message>
    <message>
        <source>Theme</source>
        <translation>Design</translation>
    </message>
    <message>
        <source>Dark or light, or as the system has it.</source>
        <translation>Dunkel oder hell, oder wie vom System vorgegeben.</translation>
    </message>
    <message>
        <source>Text size</source>
        <translation>Textgröße</translation>
    </message>
    <message>
        <source>All of the window grows with its text.</source>
        <translation>Das ganze Fenster wächst mit dem Text.</translation>
    </message>
    <message>
        <source>Language</source>
        <translation>Sprache</translation>
    </message>
    <message>
        <source>Of words and figures, or as the system has it.</source>
        <translation>Für Texte und Zahlen, oder wie vom System vorgegeben.</translation>
    </message>
    <message>
        <source>Models folder</source>
        <translation>Modellordner</translation>
    </message>
    <message>
        <source>Moving it takes the models along, or leaves all as it is.</source>
        <translation>Beim Verschieben ziehen die Modelle mit um, oder alles bleibt, wie es ist.</translation>
    </message>
    <message>
        <source>Data folder</source>
        <translation>Datenordner</translation>
    </message>
    <message>
        <source>Chats and what was measured. Settings stay where they are.</source>
        <translation>Chats und Messwerte. Die Einstellungen bleiben, wo sie sind.</translation>
    </message>
    <message>
        <source>Device</source>
        <translation>Gerät</translation>
    </message>
    <message>
        <source>What models run on. Auto takes the quickest that is there.</source>
        <translation>Worauf Modelle laufen. „Auto“ nimmt das schnellste vorhandene.</translation>
    </message>
    <message>
        <source>Threads</source>
        <translation>Threads</translation>
    </message>
    <message>
        <source>More than the cores can feed only gets in the way.</source>
        <translation>Mehr Threads, als die Kerne versorgen können, stören nur.</translation>
    </message>
    <message>
        <source>The quickest, as measured</source>
        <translation>Schnellste laut Messung</translation>
    </message>
    <message>
        <source>Memory guard</source>
        <translation>Speicherwächter</translation>
    </message>
    <message>
        <source>Strict loads what fits with a margin, Relaxed all that fits, Off everything.</source>
        <translation>„Streng“ lädt, was mit Reserve passt, „Locker“ alles, was passt, „Aus“ alles.</translation>
    </message>
    <message>
        <source>Unload when idle</source>
        <translation>Bei Leerlauf entladen</translation>
    </message>
    <message>
        <source>Gives the memory back. The next message loads it again.</source>
        <translation>Gibt den Speicher frei. Die nächste Nachricht lädt das Modell wieder.</translation>
    </message>
    <message>
        <source>minutes</source>
        <translation>Minuten</translation>
    </message>
    <message>
        <source>Never</source>
        <translation>Nie</translation>
    </message>
    <message>
        <source>Recommend for</source>
        <translation>Empfehlen für</translation>
    </message>
    <message>
        <source>What recommended settings are best at.</source>
        <translation>Worauf empfohlene Einstellungen ausgelegt sind.</translation>
    </message>
    <message>
        <source>Instructions</source>
        <translation>Anweisungen</translation>
    </message>
    <message>
        <source>What every chat is told before its first message.</source>
        <translation>Was jedem Chat vor der ersten Nachricht mitgegeben wird.</translation>
    </message>
    <message>
        <source>Longest answer</source>
        <translation>Längste Antwort</translation>
    </message>
    <message>
        <source>An answer ends there; Continue goes on.</source>
        <translation>Dort endet eine Antwort; „Fortsetzen“ führt sie weiter.</translation>
    </message>
    <message>
        <source>tokens</source>
        <translation>Tokens</translation>
    </message>
    <message>
        <source>No limit</source>
        <translation>Unbegrenzt</translation>
    </message>
    <message>
        <source>Thinking</source>
        <translation>Nachdenken</translation>
    </message>
    <message>
        <source>Whether models that can think do so. Auto is as the model has it.</source>
        <translation>Ob Modelle nachdenken, die es können. „Auto“: wie vom Modell vorgesehen.</translation>
    </message>
    <message>
        <source>When the context is full</source>
        <translation>Wenn der Kontext voll ist</translation>
    </message>
    <message>
        <source>The answer stops, or the oldest or the middle part of the chat is left out.</source>
        <translation>Die Antwort hält an, oder der älteste oder mittlere Teil des Chats wird weggelassen.</translation>
    </message>
    <message>
        <source>Who guesses tokens ahead: faster, and the same answer.</source>
        <translation>Wer Tokens vorausrät: schneller, bei gleicher Antwort.</translation>
    </message>
    <message>
        <source>Temperature</source>
        <translation>Temperatur</translation>
    </message>
    <message>
        <source>0 takes the likeliest token each time; more is more varied.</source>
        <translation>0 nimmt stets das wahrscheinlichste Token; höhere Werte bringen mehr Abwechslung.</translation>
    </message>
    <message>
        <source>Top k</source>
        <translation>Top k</translation>
    </message>
    <message>
        <source>Only so many of the likeliest. 0 is off.</source>
        <translation>Nur so viele der wahrscheinlichsten Tokens. 0 schaltet ab.</translation>
    </message>
    <message>
        <source>Top p</source>
        <translation>Top p</translation>
    </message>
    <message>
        <source>The likeliest that make up this share. 1 is off.</source>
        <translation>Die wahrscheinlichsten Tokens, die zusammen diesen Anteil ausmachen. 1 schaltet ab.</translation>
    </message>
    <message>
        <source>Min p</source>
        <translation>Min p</translation>
    </message>
    <message>
        <source>At least this share of the likeliest one&apos;s chance. 0 is off.</source>
        <translation>Mindestens dieser Anteil an der Wahrscheinlichkeit des wahrscheinlichsten Tokens. 0 schaltet ab.</translation>
    </message>
    <message>
        <source>Seed</source>
        <translation>Seed</translation>
    </message>
    <message>
        <source>The same seed, the same answer.</source>
        <translation>Gleicher Seed, gleiche Antwort.</translation>
    </message>
    <message>
        <source>A new one each time</source>
        <translation>Jedes Mal ein neuer</translation>
    </message>
    <message>
        <source>Repeat penalty</source>
        <translation>Wiederholungsstrafe</translation>
    </message>
    <message>
        <source>Above 1 what was said becomes less likely. 1 is off.</source>
        <translation>Über 1 wird bereits Gesagtes unwahrscheinlicher. 1 schaltet ab.</translation>
    </message>
    <message>
        <source>Presence penalty</source>
        <translation>Präsenzstrafe</translation>
    </message>
    <message>
        <source>Taken from each token that was used at all. 0 is off.</source>
        <translation>Abzug für jedes Token, das überhaupt schon vorkam. 0 schaltet ab.</translation>
    </message>
    <message>
        <source>Frequency penalty</source>
        <translation>Häufigkeitsstrafe</translation>
    </message>
    <message>
        <source>Taken from a token for each time it was used. 0 is off.</source>
        <translation>Abzug für jedes Vorkommen eines Tokens. 0 schaltet ab.</translation>
    </message>
    <message>
        <source>Currency</source>
        <translation>Währung</translation>
    </message>
    <message>
        <source>Of all prices.</source>
        <translation>Für alle Preise.</translation>
    </message>
    <message>
        <source>The price on your bill.</source>
        <translation>Der Preis laut Stromrechnung.</translation>
    </message>
    <message>
        <source>per kWh</source>
        <translation>je kWh</translation>
    </message>
    <message>
        <source>Unknown</source>
        <translation>Unbekannt</translation>
    </message>
    <message>
        <source>The whole computer, read from a meter at the plug.</source>
        <translation>Der ganze Computer, abgelesen von einem Messgerät an der Steckdose.</translation>
    </message>
    <message>
        <source>The same with nothing to do.</source>
        <translation>Dasselbe, wenn er nichts zu tun hat.</translation>
    </message>
    <message>
        <source>What it has cost, or the part that counts.</source>
        <translation>Was er gekostet hat, oder der Teil, der zählt.</translation>
    </message>
    <message>
        <source>Until it is replaced.</source>
        <translation>Bis er ersetzt wird.</translation>
    </message>
    <message>
        <source>Making tokens, on average.</source>
        <translation>Beim Erzeugen von Tokens, im Durchschnitt.</translation>
    </message>
    <message>
        <source>What a service takes for a prompt.</source>
        <translation>Was ein Dienst für einen Prompt verlangt.</translation>
    </message>
    <message>
        <source>per million</source>
        <translation>je Million</translation>
    </message>
    <message>
        <source>API, tokens written</source>
        <translation>API, geschrieben</translation>
    </message>
    <message>
        <source>And for an answer.</source>
        <translation>Und für eine Antwort.</translation>
    </message>
    <message>
        <source>The settings could not be read: {reason}. Defaults are used.</source>
        <translation>Die Einstellungen konnten nicht gelesen werden: {reason}. Es gelten die Standardwerte.</translation>
    </message>
    <message>
        <source>Settings corrected: {corrections}.</source>
        <translation>Einstellungen korrigiert: {corrections}.</translation>
    </message>
    <message>
        <source>It must be {words}.</source>
        <translation>Erlaubt ist: {words}.</translation>
    </message>
    <message>
        <source>{name} was {before}, is now {after}</source>
        <translation>{name} war {before}, ist jetzt {after}</translation>
    </message>
    <message>
        <source>It was set aside as &quot;{name}&quot;.</source>
        <translation>Sie wurde als „{name}“ gesichert.</translation>
    </message>
    <message>
        <source>It could not be set aside.</source>
        <translation>Sie konnte nicht gesichert werden.</translation>
    </message>
    <message>
        <source>The settings from before the last change are used.</source>
        <translation>Es gelten die Einstellungen von vor der letzten Änderung.</translation>
    </message>
    <message>
        <source>Default settings are used.</source>
        <translation>Es gelten die Standardeinstellungen.</translation>
    </message>
    <message>
        <source>The settings file was damaged.</source>
        <translation>Die Einstellungsdatei war beschädigt.</translation>
    </message>
    <message>
        <source>{value} cannot be used.</source>
        <translation>{value} ist nicht zulässig.</translation>
    </message>
    <message>
        <source>Nothing cannot be used.</source>
        <translation>Ein leeres Feld ist nicht zulässig.</translation>
    </message>
    <message>
        <source>All settings are as at first. Folders and models stay.</source>
        <translation>Alle Einstellungen sind zurückgesetzt. Ordner und Modelle bleiben.</translation>
    </message>
    <message>
        <source>Undo</source>
        <translation>Rückgängig</translation>
    </message>
    <message>
        <source>The settings are as they were.</source>
        <translation>Die Einstellungen sind wieder wie zuvor.</translation>
    </message>
    <message>
        <source>The access token was removed.</source>
        <translation>Das Zugangstoken wurde entfernt.</translation>
    </message>
    <message>
        <source>The system&apos;s keyring or HF_TOKEN still has the token: remove it there.</source>
        <translation>Im Schlüsselbund des Systems oder in HF_TOKEN steht das Token noch: dort entfernen.</translation>
    </message>
    <message>
        <source>This program</source>
        <translation>Dieses Programm</translation>
    </message>
    <message>
        <source>Counts from the next load.</source>
        <translation>Gilt ab dem nächsten Laden.</translation>
    </message>
    <message>
        <source>Counts from the next start of Decodeck.</source>
        <translation>Gilt ab dem nächsten Start von Decodeck.</translation>
    </message>
    <message>
        <source>Move models folder to an empty folder</source>
        <translation>Modellordner in einen leeren Ordner verschieben</translation>
    </message>
    <message>
        <source>Move data folder to an empty folder</source>
        <translation>Datenordner in einen leeren Ordner verschieben</translation>
    </message>
    <message>
        <source>The command line says what it is in this run.</source>
        <translation>Für diesen Lauf von der Befehlszeile vorgegeben.</translation>
    </message>
    <message>
        <source>Counts when the model is loaded again.</source>
        <translation>Gilt, sobald das Modell neu geladen ist.</translation>
    </message>
    <message>
        <source>Reload now</source>
        <translation>Neu laden</translation>
    </message>
    <message>
        <source>Counts when Decodeck starts again.</source>
        <translation>Gilt nach einem Neustart von Decodeck.</translation>
    </message>
    <message>
        <source>Processor</source>
        <translation>Prozessor</translation>
    </message>
    <message>
        <source>{device}, not there now</source>
        <translation>{device}, zurzeit nicht vorhanden</translation>
    </message>
    <message>
        <source>No token is kept.</source>
        <translation>Kein Token gespeichert.</translation>
    </message>
    <message>
        <source>Speed of this computer</source>
        <translation>Tempo dieses Computers</translation>
    </message>
    <message>
        <source>What predictions rest on. Takes about 5 seconds, when nothing else is to be done.</source>
        <translation>Grundlage der Vorhersagen. Dauert etwa 5 Sekunden, sobald nichts anderes zu tun ist.</translation>
    </message>
    <message>
        <source>Measuring…</source>
        <translation>Messung…</translation>
    </message>
    <message>
        <source>Access token</source>
        <translation>Zugangstoken</translation>
    </message>
    <message>
        <source>For models behind a licence; in the system&apos;s keyring.</source>
        <translation>Für Modelle, deren Lizenz zugestimmt werden muss; im Schlüsselbund des Systems.</translation>
    </message>
    <message>
        <source>Remove token</source>
        <translation>Token entfernen</translation>
    </message>
    <message>
        <source>All settings</source>
        <translation>Alle Einstellungen</translation>
    </message>
    <message>
        <source>As at first; folders, models and chats stay.</source>
        <translation>Auf die Standardwerte; Ordner, Modelle und Chats bleiben.</translation>
    </message>
    <message>
        <source>Reset settings</source>
        <translation>Zurücksetzen</translation>
    </message>
    <message>
        <source>{count} chats · {speed}&#xa0;tok/s together</source>
        <translation>{count} Chats · {speed}&#xa0;tok/s zusammen</translation>
    </message>
    <message>
        <source>The starter model is already being downloaded.</source>
        <translation>Das Startmodell wird bereits heruntergeladen.</translation>
    </message>
    <message>
        <source>Another window is doing it.</source>
        <translation>Das erledigt ein anderes Fenster.</translation>
    </message>
    <message>
        <source>It takes {download} to download and {model} for the model unpacked from it; {margin} are to stay free.</source>
        <translation>Gebraucht werden {download} für den Download und {model} für das Modell, das daraus entpackt wird; {margin} sollen frei bleiben.</translation>
    </message>
    <message>
        <source>The package index {host} does not have {file}.</source>
        <translation>Der Paketindex {host} enthält {file} nicht.</translation>
    </message>
    <message>
        <source>Choose another model file, or set another index in pip&apos;s settings.</source>
        <translation>Eine andere Modelldatei wählen oder in den Einstellungen von pip einen anderen Index angeben.</translation>
    </message>
    <message>
        <source>The package index {host} has another {file} than the known one.</source>
        <translation>Im Paketindex {host} ist {file} nicht die bekannte Datei.</translation>
    </message>
    <message>
        <source>{file} in {archive} is not the expected file.</source>
        <translation>{file} in {archive} ist nicht die erwartete Datei.</translation>
    </message>
    <message>
        <source>{file} cannot be unpacked: {reason}.</source>
        <translation>{file} lässt sich nicht entpacken: {reason}.</translation>
    </message>
    <message>
        <source>Unpacking was stopped.</source>
        <translation>Das Entpacken wurde gestoppt.</translation>
    </message>
    <message>
        <source>The download is kept.</source>
        <translation>Der Download bleibt erhalten.</translation>
    </message>
    <message>
        <source>The connection broke off. Trying again…</source>
        <translation>Die Verbindung ist abgebrochen. Neuer Versuch…</translation>
    </message>
    <message>
        <source>This chat was removed for good by another window.</source>
        <translation>Dieser Chat wurde in einem anderen Fenster endgültig entfernt.</translation>
    </message>
    <message>
        <source>This chat was deleted in another window.</source>
        <translation>Dieser Chat wurde in einem anderen Fenster gelöscht.</translation>
    </message>
    <message>
        <source>Begin a new chat.</source>
        <translation>Einen neuen Chat beginnen.</translation>
    </message>
    <message>
        <source>The proxy that is set for this computer cannot be used.</source>
        <translation>Der für diesen Computer eingestellte Proxy ist nicht verwendbar.</translation>
    </message>
    <message>
        <source>Look at HTTPS_PROXY, HTTP_PROXY and ALL_PROXY: only http:// and https:// proxies work.</source>
        <translation>HTTPS_PROXY, HTTP_PROXY und ALL_PROXY prüfen: Nur Proxys mit http:// und https:// funktionieren.</translation>
    </message>
    <message>
        <source>The certificate file of {name} cannot be read: {place}.</source>
        <translation>Die Zertifikatsdatei aus {name} lässt sich nicht lesen: {place}.</translation>
    </message>
    <message>
        <source>Correct {name}, or unset it.</source>
        <translation>{name} berichtigen oder entfernen.</translation>
    </message>
    <message>
        <source>{host} sent far more than expected for {address}.</source>
        <translation>{host} hat für {address} weit mehr gesendet als erwartet.</translation>
    </message>
    <message>
        <source>The certificate of {host} is not trusted: {reason}.</source>
        <translation>Das Zertifikat von {host} ist nicht vertrauenswürdig: {reason}.</translation>
    </message>
    <message>
        <source>If your network inspects encrypted traffic, set SSL_CERT_FILE to its certificate file.</source>
        <translation>Falls Ihr Netzwerk verschlüsselten Verkehr prüft, in SSL_CERT_FILE dessen Zertifikatsdatei angeben.</translation>
    </message>
    <message>
        <source>No secure connection to {host} could be made.</source>
        <translation>Zu {host} kam keine sichere Verbindung zustande.</translation>
    </message>
    <message>
        <source>Check the proxy settings.</source>
        <translation>Die Proxy-Einstellungen prüfen.</translation>
    </message>
    <message>
        <source>The proxy {host} does not answer.</source>
        <translation>Der Proxy {host} antwortet nicht.</translation>
    </message>
    <message>
        <source>Check HTTPS_PROXY and HTTP_PROXY, and the network.</source>
        <translation>HTTPS_PROXY, HTTP_PROXY und das Netzwerk prüfen.</translation>
    </message>
    <message>
        <source>No connection to {host}.</source>
        <translation>Keine Verbindung zu {host}.</translation>
    </message>
    <message>
        <source>Check the network and try again. Models on this computer still work.</source>
        <translation>Das Netzwerk prüfen und erneut versuchen. Modelle auf diesem Computer funktionieren weiterhin.</translation>
    </message>
    <message>
        <source>{address} is not an address that can be downloaded from.</source>
        <translation>{address} ist keine Adresse, von der sich etwas herunterladen lässt.</translation>
    </message>
    <message>
        <source>{host} sent an answer that cannot be followed: {kind}.</source>
        <translation>Die Antwort von {host} lässt sich nicht verarbeiten: {kind}.</translation>
    </message>
    <message>
        <source>Try again: the download goes on where it stopped.</source>
        <translation>Erneut versuchen: Der Download geht dort weiter, wo er stehen blieb.</translation>
    </message>
    <message>
        <source>The download from {host} failed: {reason}.</source>
        <translation>Der Download von {host} ist fehlgeschlagen: {reason}.</translation>
    </message>
    <message>
        <source>{host} refuses access to {name} (status {status}).</source>
        <translation>{host} verweigert den Zugriff auf {name} (Status {status}).</translation>
    </message>
    <message>
        <source>It may need a login.</source>
        <translation>Vielleicht ist eine Anmeldung nötig.</translation>
    </message>
    <message>
        <source>{host} does not have {name} (status {status}).</source>
        <translation>{name} gibt es bei {host} nicht (Status {status}).</translation>
    </message>
    <message>
        <source>{host} cannot answer at the moment (status {status}).</source>
        <translation>{host} kann gerade nicht antworten (Status {status}).</translation>
    </message>
    <message>
        <source>Try again in a few minutes.</source>
        <translation>In einigen Minuten erneut versuchen.</translation>
    </message>
    <message>
        <source>{host} answered with status {status} instead of {name}.</source>
        <translation>{host} hat mit Status {status} geantwortet, statt {name} zu senden.</translation>
    </message>
    <message>
        <source>The proxy asks for a name and a password.</source>
        <translation>Der Proxy verlangt einen Benutzernamen und ein Passwort.</translation>
    </message>
    <message>
        <source>The proxy {host} asks for a name and a password.</source>
        <translation>Der Proxy {host} verlangt einen Benutzernamen und ein Passwort.</translation>
    </message>
    <message>
        <source>Put them into HTTPS_PROXY, as in http://name:password@host:port.</source>
        <translation>Beides in HTTPS_PROXY eintragen, etwa http://name:passwort@host:port.</translation>
    </message>
    <message>
        <source>The proxy of this computer refused the connection to {host}.</source>
        <translation>Der Proxy dieses Computers hat die Verbindung zu {host} abgelehnt.</translation>
    </message>
    <message>
        <source>The proxy {proxy} refused the connection to {host}.</source>
        <translation>Der Proxy {proxy} hat die Verbindung zu {host} abgelehnt.</translation>
    </message>
    <message>
        <source>Check HTTPS_PROXY and HTTP_PROXY.</source>
        <translation>HTTPS_PROXY und HTTP_PROXY prüfen.</translation>
    </message>
    <message>
        <source>The bits the file has, wherever the kernels can hold them; everything else is held at 16 bits</source>
        <translation>Die Bitzahl der Datei, soweit die Kernel sie unterstützen; alles andere mit 16 Bit</translation>
    </message>
    <message>
        <source>bfloat16: twice the bytes of 8-bit, no further loss</source>
        <translation>bfloat16: doppelt so viele Bytes wie bei 8 Bit, kein weiterer Verlust</translation>
    </message>
    <message>
        <source>float16: as many bytes as bfloat16, more digits and less range</source>
        <translation>float16: so viele Bytes wie bfloat16, mehr Stellen und ein kleinerer Wertebereich</translation>
    </message>
    <message>
        <source>float32: exact, and the most bytes to read for each token</source>
        <translation>float32: exakt, aber je Token die meisten Bytes zu lesen</translation>
    </message>
    <message>
        <source>Weights rounded to 8 bits: hardly a difference to 16</source>
        <translation>Gewichte auf 8 Bit gerundet: kaum ein Unterschied zu 16</translation>
    </message>
    <message>
        <source>LLM.int8 of bitsandbytes: 8 bits, with outliers computed in 16</source>
        <translation>LLM.int8 von bitsandbytes: 8 Bit, Ausreißer mit 16 gerechnet</translation>
    </message>
    <message>
        <source>The layers&apos; weights rounded to 4 bits, embedding and head to 8: fewest bytes, some quality lost</source>
        <translation>Gewichte der Schichten auf 4 Bit gerundet, Embedding und Ausgabeschicht auf 8: die wenigsten Bytes, etwas Qualitätsverlust</translation>
    </message>
    <message>
        <source>NormalFloat 4 of bitsandbytes: the layers&apos; weights at 4 bits, embedding and head at 16</source>
        <translation>NormalFloat 4 von bitsandbytes: Gewichte der Schichten mit 4 Bit, Embedding und Ausgabeschicht mit 16</translation>
    </message>
    <message>
        <source>Exact, and twice the memory of 16 bits</source>
        <translation>Exakt, doppelt so viel Speicher wie bei 16 Bit</translation>
    </message>
    <message>
        <source>As the model computes: no loss</source>
        <translation>Wie das Modell rechnet: kein Verlust</translation>
    </message>
    <message>
        <source>Half the memory of 16 bits: hardly a loss</source>
        <translation>Halb so viel Speicher wie bei 16 Bit: kaum ein Verlust</translation>
    </message>
    <message>
        <source>A quarter of the memory of 16 bits: a small loss; the last 128 tokens stay at 16 bits</source>
        <translation>Ein Viertel des Speichers von 16 Bit: ein geringer Verlust; die letzten 128 Tokens bleiben bei 16 Bit</translation>
    </message>
    <message>
        <source>Whatever promises more tokens per step, and nothing where drafts lose</source>
        <translation>Was mehr Tokens je Schritt verspricht; nichts, wo Entwürfe bremsen</translation>
    </message>
    <message>
        <source>One token per step</source>
        <translation>Ein Token je Schritt</translation>
    </message>
    <message>
        <source>Guesses what the chat has said before: quotes, code, lists</source>
        <translation>Rät, was im Chat schon vorkam: Zitate, Code, Listen</translation>
    </message>
    <message>
        <source>A smaller model with the same vocabulary guesses; it takes memory too</source>
        <translation>Ein kleineres Modell mit demselben Vokabular rät; es braucht ebenfalls Speicher</translation>
    </message>
    <message>
        <source>Predicted from what was measured of this computer.</source>
        <translation>Vorhersage aus Messungen an diesem Computer.</translation>
    </message>
    <message>
        <source>Predicted from what was measured of this computer and of real answers.</source>
        <translation>Vorhersage aus Messungen an diesem Computer und an echten Antworten.</translation>
    </message>
    <message>
        <source>Predicted from typical values: what this model computes with was not measured here.</source>
        <translation>Vorhergesagt aus typischen Werten: Womit dieses Modell rechnet, wurde hier nicht gemessen.</translation>
    </message>
    <message>
        <source>File {bits}-bit</source>
        <translation>Datei {bits} Bit</translation>
    </message>
    <message>
        <source>{size} · {speed}&#xa0;tok/s</source>
        <translation>{size} · {speed}&#xa0;tok/s</translation>
    </message>
    <message>
        <source>not here</source>
        <translation>nicht da</translation>
    </message>
    <message>
        <source>File</source>
        <comment>a format: the bits the file has</comment>
        <translation>Datei</translation>
    </message>
    <message>
        <source>{size} for this context</source>
        <translation>{size} für diesen Kontext</translation>
    </message>
    <message>
        <source>Keys stay at {bits} bits: this family&apos;s round badly</source>
        <translation>Keys bleiben bei {bits} Bit: Bei dieser Modellfamilie lassen sie sich schlecht runden</translation>
    </message>
    <message>
        <source>The first token is that of a prompt of {tokens} tokens.</source>
        <translation>Die Zeit bis zum ersten Token gilt für einen Prompt mit {tokens} Tokens.</translation>
    </message>
    <message>
        <source>{speed}&#xa0;tok/s ±{share} · first token {seconds}&#xa0;s</source>
        <translation>{speed}&#xa0;tok/s ±{share} · erstes Token {seconds}&#xa0;s</translation>
    </message>
    <message>
        <source>Spills {share} to disk · {slower}</source>
        <translation>{share} auf Laufwerk ausgelagert · {slower}</translation>
    </message>
    <message>
        <source>Spills {share} to RAM · {slower}</source>
        <translation>{share} in RAM ausgelagert · {slower}</translation>
    </message>
    <message>
        <source>Tight · free memory unknown</source>
        <translation>Knapp · freier Speicher unbekannt</translation>
    </message>
    <message>
        <source>Fits · {size} spare</source>
        <translation>Passt · {size} übrig</translation>
    </message>
    <message>
        <source>Tight · {size} spare</source>
        <translation>Knapp · {size} übrig</translation>
    </message>
    <message>
        <source>a little slower</source>
        <translation>etwas langsamer</translation>
    </message>
    <message>
        <source>about {factor}× slower</source>
        <translation>etwa {factor}× langsamer</translation>
    </message>
    <message>
        <source>Choose a smaller model</source>
        <translation>Kleineres Modell wählen</translation>
    </message>
    <message>
        <source>Recommended: {format}, {tokens} context</source>
        <translation>Empfohlen: {format}, Kontext {tokens}</translation>
    </message>
    <message>
        <source>These chats are not stored: they end with this window.</source>
        <translation>Diese Chats sind nicht gespeichert: Sie enden mit diesem Fenster.</translation>
    </message>
    <message>
        <source>Export what you want to keep, or close the window once more.</source>
        <translation>Exportieren Sie, was Sie behalten möchten, oder schließen Sie das Fenster noch einmal.</translation>
    </message>
    <message>
        <source>Close without them</source>
        <translation>Ohne sie schließen</translation>
    </message>
    <message>
        <source>Chats are not stored: what is new ends with this window.</source>
        <translation>Chats werden nicht gespeichert: Neues endet mit diesem Fenster.</translation>
    </message>
    <message>
        <source>The chat stays in this window and is tried again.</source>
        <translation>Der Chat bleibt in diesem Fenster; das Speichern wird erneut versucht.</translation>
    </message>
    <message>
        <source>The chat could not be saved.</source>
        <translation>Der Chat konnte nicht gespeichert werden.</translation>
    </message>
    <message>
        <source>Not measured yet</source>
        <translation>Noch nicht gemessen</translation>
    </message>
    <message>
        <source>the first answer sets the gauges and checks the prediction</source>
        <translation>Die erste Antwort liefert Werte für die Anzeigen und prüft die Vorhersage</translation>
    </message>
    <message>
        <source>Slower for a moment</source>
        <translation>Kurz langsamer</translation>
    </message>
    <message>
        <source>another chat&apos;s message is being read between the steps</source>
        <translation>Zwischen den Schritten wird die Nachricht eines anderen Chats eingelesen</translation>
    </message>
    <message>
        <source>Slower than predicted</source>
        <translation>Langsamer als erwartet</translation>
    </message>
    <message>
        <source>the reason is not clear yet</source>
        <translation>Der Grund ist noch unklar</translation>
    </message>
    <message>
        <source>Limit not clear yet</source>
        <translation>Engpass noch unklar</translation>
    </message>
    <message>
        <source>memory is short, and parts of the model come back from the disk</source>
        <translation>Der Speicher ist knapp, und Teile des Modells werden wieder vom Laufwerk geholt</translation>
    </message>
    <message>
        <source>{size} more are reserved than the GPU has, and spill into RAM</source>
        <translation>Reserviert sind {size} mehr, als die GPU hat; sie werden in den RAM ausgelagert</translation>
    </message>
    <message>
        <source>the processor is hot and slows itself down</source>
        <translation>Der Prozessor ist heiß und drosselt sich selbst</translation>
    </message>
    <message>
        <source>the processor runs at {share} of its frequency</source>
        <translation>Der Prozessor läuft mit {share} seiner Taktfrequenz</translation>
    </message>
    <message>
        <source>the laptop is on battery, and the processor runs at {share} of its frequency</source>
        <translation>Der Laptop läuft im Akkubetrieb, der Prozessor mit {share} seiner Taktfrequenz</translation>
    </message>
    <message>
        <source>other machines of this host take {share} of its time</source>
        <translation>Andere virtuelle Maschinen dieses Hosts beanspruchen {share} seiner Zeit</translation>
    </message>
    <message>
        <source>another program uses {busy} of {count} cores and the same memory bus</source>
        <translation>Ein anderes Programm nutzt {busy} von {count} Kernen und denselben Speicherbus</translation>
    </message>
    <message>
        <source>another program uses {busy} of {count} cores</source>
        <translation>Ein anderes Programm nutzt {busy} von {count} Kernen</translation>
    </message>
    <message>
        <source>{some} of {all} layers are read from the disk for every token</source>
        <translation>{some} von {all} Schichten werden für jedes Token vom Laufwerk gelesen</translation>
    </message>
    <message>
        <source>Memory spilled</source>
        <translation>Modell ausgelagert</translation>
    </message>
    <message>
        <source>{some} of {all} layers had no room on the GPU</source>
        <translation>{some} von {all} Schichten hatten auf der GPU keinen Platz</translation>
    </message>
    <message>
        <source>checking them costs more than they save, {share} of the speed without</source>
        <translation>Das Prüfen kostet mehr, als sie sparen: {share} des Tempos ohne Entwürfe</translation>
    </message>
    <message>
        <source>Drafts lose</source>
        <translation>Entwürfe bremsen</translation>
    </message>
    <message>
        <source>{kernels} reads the weights.</source>
        <translation>Die Gewichte werden mit {kernels} gelesen.</translation>
    </message>
    <message>
        <source>Slower kernel</source>
        <translation>Langsamerer Kernel</translation>
    </message>
    <message>
        <source>each step</source>
        <translation>Schritt</translation>
    </message>
    <message>
        <source>each token</source>
        <translation>Token</translation>
    </message>
    <message>
        <source>{share} of {each} is reading {size} of context (KV cache)</source>
        <translation>{share} der Zeit je {each} gehen ins Lesen von {size} Kontext (KV-Cache)</translation>
    </message>
    <message>
        <source>Memory-bound</source>
        <translation>Speicherbegrenzt</translation>
    </message>
    <message>
        <source>{share} of {each} is reading {size} of weights</source>
        <translation>{share} der Zeit je {each} gehen ins Lesen von {size} Gewichten</translation>
    </message>
    <message>
        <source>Cache-bound</source>
        <translation>Cachebegrenzt</translation>
    </message>
    <message>
        <source>{share} of {each} is reading {size} of weights from the processor&apos;s cache</source>
        <translation>{share} der Zeit je {each} gehen ins Lesen von {size} Gewichten aus dem Cache des Prozessors</translation>
    </message>
    <message>
        <source>{share} of {each} is arithmetic that reading does not hide</source>
        <translation>{share} der Zeit je {each} gehen in Rechenarbeit, die das Lesen nicht verdeckt</translation>
    </message>
    <message>
        <source>{share} of {each} is arithmetic for {chats} chats that reading does not hide</source>
        <translation>{share} der Zeit je {each} gehen in Rechenarbeit für {chats} Chats, die das Lesen nicht verdeckt</translation>
    </message>
    <message>
        <source>Compute-bound</source>
        <translation>Rechenbegrenzt</translation>
    </message>
    <message>
        <source>{share} of {each} is the fixed cost of {layers} layers</source>
        <translation>{share} der Zeit je {each} gehen in den Grundaufwand für {layers} Schichten</translation>
    </message>
    <message>
        <source>Overhead-bound</source>
        <translation>Overheadbegrenzt</translation>
    </message>
    <message>
        <source>There is no room for {count} caches.</source>
        <translation>Für {count} Caches ist kein Platz.</translation>
    </message>
    <message>
        <source>Another cache needs {needed} GB and {free} GB are free.</source>
        <translation>Ein weiterer Cache braucht {needed} GB, frei sind {free} GB.</translation>
    </message>
    <message>
        <source>The model produced invalid numbers.</source>
        <translation>Das Modell hat ungültige Zahlen erzeugt.</translation>
    </message>
    <message>
        <source>The file may be damaged, or its format unsuited to this model.</source>
        <translation>Vielleicht ist die Datei beschädigt oder ihr Format für dieses Modell ungeeignet.</translation>
    </message>
    <message>
        <source>no answer fulfils it</source>
        <translation>keine Antwort kann das erfüllen</translation>
    </message>
    <message>
        <source>oneOf is not supported where several of its kinds can hold; write anyOf</source>
        <translation>oneOf wird nicht unterstützt, wo mehrere Varianten zutreffen können; stattdessen anyOf verwenden</translation>
    </message>
    <message>
        <source>it looks ahead or behind (such as (?=…) or \b), which is not supported</source>
        <translation>Lookahead und Lookbehind (etwa (?=…) oder \b) werden nicht unterstützt</translation>
    </message>
    <message>
        <source>it is too complex</source>
        <translation>zu komplex</translation>
    </message>
    <message>
        <source>The JSON schema cannot be used: {reason}.</source>
        <translation>Das JSON-Schema ist nicht verwendbar: {reason}.</translation>
    </message>
    <message>
        <source>The regex cannot be used: {reason}.</source>
        <translation>Der reguläre Ausdruck ist nicht verwendbar: {reason}.</translation>
    </message>
    <message>
        <source>No token of this model can follow here.</source>
        <translation>Hier kann kein Token dieses Modells folgen.</translation>
    </message>
    <message>
        <source>Change the schema or regex.</source>
        <translation>Das Schema oder den regulären Ausdruck ändern.</translation>
    </message>
    <message>
        <source>The answer did not begin as its schema or regex has it.</source>
        <translation>Die Antwort begann nicht so, wie ihr Schema oder regulärer Ausdruck es verlangt.</translation>
    </message>
    <message>
        <source>Ask again, or without thinking.</source>
        <translation>Noch einmal fragen, oder ohne Nachdenken.</translation>
    </message>
    <message>
        <source>Change or simplify it.</source>
        <translation>Ändern oder vereinfachen.</translation>
    </message>
    <message>
        <source>a whole number up to {most}</source>
        <translation>eine ganze Zahl bis {most}</translation>
    </message>
    <message>
        <source>a number up to {most}</source>
        <translation>eine Zahl bis {most}</translation>
    </message>
    <message>
        <source>a whole number from {least} to {most}</source>
        <translation>eine ganze Zahl von {least} bis {most}</translation>
    </message>
    <message>
        <source>a number from {least} to {most}</source>
        <translation>eine Zahl von {least} bis {most}</translation>
    </message>
    <message>
        <source>{name} {value} cannot be used.</source>
        <translation>{name} {value} ist nicht zulässig.</translation>
    </message>
    <message>
        <source>It must be {range}.</source>
        <translation>Erlaubt ist: {range}.</translation>
    </message>
    <message>
        <source>Speculation {way} is unknown.</source>
        <translation>Unbekannte Art des Vorausratens: {way}.</translation>
    </message>
    <message>
        <source>Choose {choices}.</source>
        <translation>Zur Wahl stehen: {choices}.</translation>
    </message>
    <message>
        <source>logit-bias names {count} tokens.</source>
        <translation>logit-bias nennt {count} Tokens.</translation>
    </message>
    <message>
        <source>At most {most} tokens can have one.</source>
        <translation>Höchstens {most} Tokens sind erlaubt.</translation>
    </message>
    <message>
        <source>This model&apos;s ids are {range}.</source>
        <translation>Erlaubt als ID bei diesem Modell: {range}.</translation>
    </message>
    <message>
        <source>An id is {range}.</source>
        <translation>Erlaubt als ID: {range}.</translation>
    </message>
    <message>
        <source>logit-bias names the token {token}, which is none.</source>
        <translation>logit-bias nennt das Token {token}, das es nicht gibt.</translation>
    </message>
    <message>
        <source>logit-bias {bias} of the token {token} cannot be used.</source>
        <translation>logit-bias {bias} für das Token {token} ist nicht zulässig.</translation>
    </message>
    <message>
        <source>logit-bias names the token {token} twice.</source>
        <translation>logit-bias nennt das Token {token} zweimal.</translation>
    </message>
    <message>
        <source>Name every token once.</source>
        <translation>Jedes Token nur einmal nennen.</translation>
    </message>
    <message>
        <source>An answer is held to a JSON schema or a regex, not to both.</source>
        <translation>Eine Antwort kann an ein JSON-Schema oder einen regulären Ausdruck gebunden sein, nicht an beides.</translation>
    </message>
    <message>
        <source>Give one of them.</source>
        <translation>Nur eines davon angeben.</translation>
    </message>
    <message>
        <source>The JSON schema has {size} bytes; at most {most} are allowed.</source>
        <translation>Das JSON-Schema hat {size} Byte; höchstens {most} sind erlaubt.</translation>
    </message>
    <message>
        <source>The regex has {size} bytes; at most {most} are allowed.</source>
        <translation>Der reguläre Ausdruck hat {size} Byte; höchstens {most} sind erlaubt.</translation>
    </message>
    <message>
        <source>Give a shorter one.</source>
        <translation>Eine kürzere Fassung angeben.</translation>
    </message>
    <message>
        <source>The regex ends with a backslash that escapes nothing.</source>
        <translation>Der reguläre Ausdruck endet mit einem Backslash, der nichts maskiert.</translation>
    </message>
    <message>
        <source>Write two for one.</source>
        <translation>Den Backslash verdoppeln.</translation>
    </message>
    <message>
        <source>Holding an answer to a schema or a regex needs the package llguidance, which is not installed.</source>
        <translation>Antworten nach einem Schema oder regulären Ausdruck brauchen das Paket llguidance, das nicht installiert ist.</translation>
    </message>
    <message>
        <source>Run pip install {name}.</source>
        <translation>pip install {name} ausführen.</translation>
    </message>
    <message>
        <source>The JSON schema is nested too deeply.</source>
        <translation>Das JSON-Schema ist zu tief verschachtelt.</translation>
    </message>
    <message>
        <source>Simplify it.</source>
        <translation>Vereinfachen.</translation>
    </message>
    <message>
        <source>The JSON schema is not a JSON object.</source>
        <translation>Das JSON-Schema ist kein JSON-Objekt.</translation>
    </message>
    <message>
        <source>Give one, such as {example}.</source>
        <translation>Eines angeben, etwa {example}.</translation>
    </message>
    <message>
        <source>The prompt is empty.</source>
        <translation>Der Prompt ist leer.</translation>
    </message>
    <message>
        <source>Write a message first.</source>
        <translation>Zuerst eine Nachricht schreiben.</translation>
    </message>
    <message>
        <source>The prompt has {tokens} tokens and the context holds {context}.</source>
        <translation>Der Prompt hat {tokens} Tokens, der Kontext fasst {context}.</translation>
    </message>
    <message>
        <source>Shorten it, start a new chat, or raise the context length.</source>
        <translation>Den Prompt kürzen, einen neuen Chat beginnen oder die Kontextlänge erhöhen.</translation>
    </message>
    <message>
        <source>The tokenizer and the weights do not belong together.</source>
        <translation>Tokenizer und Gewichte gehören nicht zusammen.</translation>
    </message>
    <message>
        <source>Download the model again.</source>
        <translation>Das Modell erneut herunterladen.</translation>
    </message>
    <message>
        <source>An answer {name} is under way.</source>
        <translation>Eine Antwort mit der ID {name} läuft bereits.</translation>
    </message>
    <message>
        <source>Give every request its own id.</source>
        <translation>Jeder Anfrage eine eigene ID geben.</translation>
    </message>
    <message>
        <source>The KV cache has no room for the answer.</source>
        <translation>Im KV-Cache ist kein Platz für die Antwort.</translation>
    </message>
    <message>
        <source>Raise the context length, or start a new chat.</source>
        <translation>Die Kontextlänge erhöhen oder einen neuen Chat beginnen.</translation>
    </message>
    <message>
        <source>An answer is being written.</source>
        <translation>Gerade wird eine Antwort geschrieben.</translation>
    </message>
    <message>
        <source>Measure again when it has ended.</source>
        <translation>Nach deren Ende erneut messen.</translation>
    </message>
    <message>
        <source>{path}: the weights give no numbers as {format}.</source>
        <translation>{path}: Die Gewichte ergeben als {format} keine gültigen Zahlen.</translation>
    </message>
    <message>
        <source>Choose another format; if that fails too, download the model again.</source>
        <translation>Ein anderes Format wählen; hilft auch das nicht, das Modell erneut herunterladen.</translation>
    </message>
    <message>
        <source>The GPU stopped working: {reason}.</source>
        <translation>Die GPU ist ausgefallen: {reason}.</translation>
    </message>
    <message>
        <source>Start the program again. If this comes back, load the model on the processor (--device cpu).</source>
        <translation>Das Programm neu starten. Tritt der Fehler wieder auf, das Modell auf dem Prozessor laden (--device cpu).</translation>
    </message>
    <message>
        <source>There is not enough memory.</source>
        <translation>Der Speicher reicht nicht.</translation>
    </message>
    <message>
        <source>Choose a smaller format or a shorter context.</source>
        <translation>Ein kleineres Format oder einen kürzeren Kontext wählen.</translation>
    </message>
    <message>
        <source>This model has no chat template, so it is not made for chatting.</source>
        <translation>Dieses Modell hat keine Chatvorlage, ist also nicht für Chats gemacht.</translation>
    </message>
    <message>
        <source>Choose one made for chat (often named Instruct or Chat), or have your text continued as it is.</source>
        <translation>Ein Chatmodell wählen (oft mit Instruct oder Chat im Namen) oder den Text unverändert fortsetzen lassen.</translation>
    </message>
    <message>
        <source>Preference {preference} is unknown.</source>
        <translation>Die Präferenz {preference} ist unbekannt.</translation>
    </message>
    <message>
        <source>Nothing fits; {format} comes nearest.</source>
        <translation>Nichts passt; {format} kommt am nächsten.</translation>
    </message>
    <message>
        <source>The quickest that can be loaded, about {speed} tok/s.</source>
        <translation>Das Schnellste, was sich laden lässt, etwa {speed} tok/s.</translation>
    </message>
    <message>
        <source>Nothing that fits writes as quickly as people read; this is the quickest, about {speed} tok/s.</source>
        <translation>Nichts, was passt, schreibt so schnell, wie man liest; dies ist das Schnellste, etwa {speed} tok/s.</translation>
    </message>
    <message>
        <source>The quickest that fits, about {speed} tok/s.</source>
        <translation>Das Schnellste, was passt, etwa {speed} tok/s.</translation>
    </message>
    <message>
        <source>The longest context that fits with room to spare and is quicker than reading, about {speed} tok/s.</source>
        <translation>Der längste Kontext, der mit Reserve passt und das Lesetempo übertrifft, etwa {speed} tok/s.</translation>
    </message>
    <message>
        <source>The most exact weights that fit with room to spare and are quicker than reading, about {speed} tok/s.</source>
        <translation>Die genauesten Gewichte, die mit Reserve passen und das Lesetempo übertreffen, etwa {speed} tok/s.</translation>
    </message>
    <message>
        <source>Format {format} is unknown.</source>
        <translation>Das Format {format} ist unbekannt.</translation>
    </message>
    <message>
        <source>Choose auto, {formats}.</source>
        <translation>Zur Wahl stehen: auto, {formats}.</translation>
    </message>
    <message>
        <source>LLM.int8 runs on NVIDIA GPUs (CUDA) only.</source>
        <translation>LLM.int8 läuft nur auf NVIDIA-GPUs (CUDA).</translation>
    </message>
    <message>
        <source>needs CUDA</source>
        <translation>braucht CUDA</translation>
    </message>
    <message>
        <source>Choose {format}.</source>
        <translation>{format} wählen.</translation>
    </message>
    <message>
        <source>NF4 needs an NVIDIA GPU (CUDA) or a processor with AVX-512 BF16.</source>
        <translation>NF4 braucht eine NVIDIA-GPU (CUDA) oder einen Prozessor mit AVX-512 BF16.</translation>
    </message>
    <message>
        <source>not on this CPU</source>
        <translation>CPU ungeeignet</translation>
    </message>
    <message>
        <source>{format} needs the library bitsandbytes, which is not installed.</source>
        <translation>{format} braucht die Bibliothek bitsandbytes, die nicht installiert ist.</translation>
    </message>
    <message>
        <source>Run pip install bitsandbytes, or choose int4 or int8.</source>
        <translation>pip install bitsandbytes ausführen oder int4 oder int8 wählen.</translation>
    </message>
    <message>
        <source>no bitsandbytes</source>
        <translation>kein bitsandbytes</translation>
    </message>
    <message>
        <source>A context length of {context} cannot be used.</source>
        <translation>Eine Kontextlänge von {context} ist nicht zulässig.</translation>
    </message>
    <message>
        <source>Give at least {least}.</source>
        <translation>Mindestens {least} angeben.</translation>
    </message>
    <message>
        <source>KV precision {precision} is unknown.</source>
        <translation>Die KV-Präzision {precision} ist unbekannt.</translation>
    </message>
    <message>
        <source>Choose auto, 32, 16, 8 or 4.</source>
        <translation>Zur Wahl stehen auto, 32, 16, 8 und 4.</translation>
    </message>
    <message>
        <source>KV precision {precision} needs heads of a multiple of {multiple} numbers; this model&apos;s have {size}.</source>
        <translation>Die KV-Präzision {precision} braucht Heads mit einem Vielfachen von {multiple} Zahlen; die dieses Modells haben {size}.</translation>
    </message>
    <message>
        <source>Choose auto, 32 or 16.</source>
        <translation>Zur Wahl stehen auto, 32 und 16.</translation>
    </message>
    <message>
        <source>{threads} threads cannot be used.</source>
        <translation>{threads} Threads sind nicht zulässig.</translation>
    </message>
    <message>
        <source>Give a number from 1 to 1024.</source>
        <translation>Eine Zahl von 1 bis 1024 angeben.</translation>
    </message>
    <message>
        <source>{layers} layers on the GPU cannot be used.</source>
        <translation>{layers} Schichten auf der GPU sind nicht zulässig.</translation>
    </message>
    <message>
        <source>Give 0 or more.</source>
        <translation>0 oder mehr angeben.</translation>
    </message>
    <message>
        <source>Layers can lie on a GPU only where one is used.</source>
        <translation>Schichten können nur dann auf einer GPU liegen, wenn eine verwendet wird.</translation>
    </message>
    <message>
        <source>Device {device} is not here.</source>
        <translation>Das Gerät {device} ist nicht vorhanden.</translation>
    </message>
    <message>
        <source>Choose {choices} or {last}.</source>
        <translation>Zur Wahl stehen {choices} und {last}.</translation>
    </message>
    <message>
        <source>{size} GB short.</source>
        <translation>Es fehlen {size} GB.</translation>
    </message>
    <message>
        <source>{gpu_layers} of {layers} layers on the GPU.</source>
        <translation>{gpu_layers} von {layers} Schichten auf der GPU.</translation>
    </message>
    <message>
        <source>Free memory is unknown.</source>
        <translation>Der freie Speicher ist unbekannt.</translation>
    </message>
    <message>
        <source>{size} GB spare.</source>
        <translation>{size} GB übrig.</translation>
    </message>
    <message>
        <source>The draft model {name} takes {size} GB beside it.</source>
        <translation>Das Entwurfsmodell {name} belegt zusätzlich {size} GB.</translation>
    </message>
    <message>
        <source>Format {format} cannot be used with this model: it runs through transformers.</source>
        <translation>Das Format {format} ist bei diesem Modell nicht verwendbar: Es läuft über transformers.</translation>
    </message>
    <message>
        <source>Choose bf16, f16 or f32.</source>
        <translation>bf16, f16 oder f32 wählen.</translation>
    </message>
    <message>
        <source>KV precision {precision} cannot be used with {format} here: the model runs through transformers.</source>
        <translation>Die KV-Präzision {precision} ist hier mit {format} nicht verwendbar: Das Modell läuft über transformers.</translation>
    </message>
    <message>
        <source>Choose auto or {precision}.</source>
        <translation>auto oder {precision} wählen.</translation>
    </message>
    <message>
        <source>This model cannot be split between processor and GPU: it runs through transformers.</source>
        <translation>Dieses Modell lässt sich nicht zwischen Prozessor und GPU aufteilen: Es läuft über transformers.</translation>
    </message>
    <message>
        <source>Put all layers on the GPU, or none.</source>
        <translation>Alle Schichten auf die GPU legen, oder keine.</translation>
    </message>
    <message>
        <source>Runs through transformers, slower: {reason}.</source>
        <translation>Läuft über transformers, langsamer: {reason}.</translation>
    </message>
    <message>
        <source>{disk_layers} of {layers} layers stay on the disk: every step reads {size} GB of them.</source>
        <translation>{disk_layers} von {layers} Schichten bleiben auf dem Laufwerk: Jeder Schritt liest davon {size} GB.</translation>
    </message>
    <message>
        <source>{name} does not fit in memory: {reason}</source>
        <translation>{name} passt nicht in den Speicher: {reason}</translation>
    </message>
    <message>
        <source>{name} fits too tightly for the strict guard: {reason}</source>
        <translation>{name} passt für den strengen Speicherwächter zu knapp: {reason}</translation>
    </message>
    <message>
        <source>The model needs {needed} GB and {free} GB are free.</source>
        <translation>Das Modell braucht {needed} GB, frei sind {free} GB.</translation>
    </message>
    <message>
        <source>The model needs {needed} GB on {device} and {free} GB are free.</source>
        <translation>Das Modell braucht {needed} GB auf {device}, frei sind {free} GB.</translation>
    </message>
    <message>
        <source>Another program has taken memory since it was planned.</source>
        <translation>Seit der Planung hat ein anderes Programm Speicher belegt.</translation>
    </message>
    <message>
        <source>It fits without the draft model.</source>
        <translation>Ohne das Entwurfsmodell passt es.</translation>
    </message>
    <message>
        <source>It fits with all layers on the processor.</source>
        <translation>Mit allen Schichten auf dem Prozessor passt es.</translation>
    </message>
    <message numerus="yes">
        <source>It fits with %n layer(s) on the GPU.</source>
        <translation>
            <numerusform>Mit %n Schicht auf der GPU passt es.</numerusform>
            <numerusform>Mit %n Schichten auf der GPU passt es.</numerusform>
        </translation>
    </message>
    <message>
        <source>It fits with a context of {context} tokens, or choose a smaller format.</source>
        <translation>Mit einem Kontext von {context} Tokens passt es; oder ein kleineres Format wählen.</translation>
    </message>
    <message>
        <source>It fits as {format} with a context of {context} tokens.</source>
        <translation>Als {format} mit einem Kontext von {context} Tokens passt es.</translation>
    </message>
    <message>
        <source>Not even its smallest form fits: {size} GB must be free. Choose a smaller model.</source>
        <translation>Nicht einmal die kleinste Form passt: {size} GB müssen frei sein. Ein kleineres Modell wählen.</translation>
    </message>
    <message>
        <source>Nothing is gained: the file&apos;s weights have {own_bits} bits; at {bits} they take {size} instead of {own_size} {unit} and are no more precise.</source>
        <translation>Kein Gewinn: Die Gewichte der Datei haben {own_bits} Bit; mit {bits} belegen sie {size} statt {own_size} {unit} und sind nicht genauer.</translation>
    </message>
    <message>
        <source>The file is quantized already: rounding its {types} weights again loses quality twice. A file made at fewer bits from the original is better.</source>
        <translation>Die Datei ist schon quantisiert: Die Gewichte ({types}) erneut zu runden kostet ein zweites Mal Qualität. Besser ist eine Datei, die aus dem Original mit weniger Bit erzeugt wurde.</translation>
    </message>
    <message>
        <source>Keys stay at {key_bits} bits: this family&apos;s lose too much at {bits}.</source>
        <translation>Keys bleiben bei {key_bits} Bit: Bei dieser Modellfamilie verlieren sie mit {bits} zu viel.</translation>
    </message>
    <message>
        <source>KV precision {precision} needs all layers on the processor in this version.</source>
        <translation>Die KV-Präzision {precision} braucht in dieser Version alle Schichten auf dem Prozessor.</translation>
    </message>
    <message>
        <source>Choose auto, 32 or 16, or the processor as the device.</source>
        <translation>auto, 32 oder 16 wählen, oder den Prozessor als Gerät.</translation>
    </message>
    <message>
        <source>The model was trained for {tokens} tokens.</source>
        <translation>Das Modell wurde für {tokens} Tokens trainiert.</translation>
    </message>
    <message>
        <source>an enormous number</source>
        <translation>eine riesige Zahl</translation>
    </message>
    <message>
        <source>a list</source>
        <translation>eine Liste</translation>
    </message>
    <message>
        <source>a dict</source>
        <translation>ein Dict</translation>
    </message>
    <message>
        <source>Other programs use the processor: the machine&apos;s speed cannot be measured.</source>
        <translation>Andere Programme nutzen den Prozessor: Das Tempo des Computers lässt sich nicht messen.</translation>
    </message>
    <message>
        <source>Too little memory is free to measure this machine&apos;s speed.</source>
        <translation>Zum Messen des Tempos dieses Computers ist zu wenig Speicher frei.</translation>
    </message>
    <message>
        <source>Close other programs and try again.</source>
        <translation>Andere Programme schließen und erneut versuchen.</translation>
    </message>
    <message>
        <source>No NVIDIA sensor: the driver&apos;s library NVML is not here.</source>
        <translation>Kein NVIDIA-Sensor: Die Bibliothek NVML des Treibers fehlt.</translation>
    </message>
    <message>
        <source>NVIDIA&apos;s driver was updated while the computer was running. Restart the computer.</source>
        <translation>Der NVIDIA-Treiber wurde bei laufendem Computer aktualisiert. Den Computer neu starten.</translation>
    </message>
    <message>
        <source>The GPU was lost: it fell off the bus or was reset. Restart the computer.</source>
        <translation>Die GPU ist nicht mehr erreichbar: Sie hat die Verbindung zum Bus verloren oder wurde zurückgesetzt. Den Computer neu starten.</translation>
    </message>
    <message>
        <source>NVIDIA&apos;s sensors tell nothing: {reason}.</source>
        <translation>Die Sensoren von NVIDIA melden nichts: {reason}.</translation>
    </message>
    <message>
        <source>The GPU sleeps.</source>
        <translation>Die GPU ist im Ruhezustand.</translation>
    </message>
    <message>
        <source>Its memory is a part of the computer&apos;s.</source>
        <translation>Ihr Speicher ist ein Teil des Arbeitsspeichers.</translation>
    </message>
    <message>
        <source>A slice of a GPU (MIG) does not tell how busy it is.</source>
        <translation>Ein Teil einer GPU (MIG) meldet nicht, wie ausgelastet er ist.</translation>
    </message>
    <message>
        <source>{name} cannot go with a draft model.</source>
        <translation>{name} lässt sich nicht mit einem Entwurfsmodell verwenden.</translation>
    </message>
    <message>
        <source>{name} cannot draft for this model: {reason}.</source>
        <translation>{name} kann für dieses Modell nicht vorausraten: {reason}.</translation>
    </message>
    <message>
        <source>Choose a smaller model of the same family.</source>
        <translation>Ein kleineres Modell derselben Familie wählen.</translation>
    </message>
    <message>
        <source>Load the model again; if that fails, download it again.</source>
        <translation>Das Modell neu laden; falls das misslingt, erneut herunterladen.</translation>
    </message>
    <message>
        <source>{path}: the model changed since it was examined.</source>
        <translation>{path}: Das Modell hat sich seit der Prüfung geändert.</translation>
    </message>
    <message>
        <source>{path}: the file changed while it was loaded ({tensor}).</source>
        <translation>{path}: Die Datei hat sich beim Laden geändert ({tensor}).</translation>
    </message>
    <message>
        <source>{kernels}, steps not recorded: {reason}</source>
        <translation>{kernels}, Schritte nicht aufgezeichnet: {reason}</translation>
    </message>
    <message>
        <source>{path}: architecture not supported: {name}.</source>
        <translation>{path}: Architektur nicht unterstützt: {name}.</translation>
    </message>
    <message>
        <source>This version runs: {known}.</source>
        <translation>Diese Version unterstützt: {known}.</translation>
    </message>
    <message>
        <source>{path}: tensor {tensor} has the shape {shape}, but the model&apos;s description needs {needed} rows.</source>
        <translation>{path}: Tensor {tensor} hat die Form {shape}, laut Beschreibung des Modells sind aber {needed} Zeilen nötig.</translation>
    </message>
    <message>
        <source>{field} is missing.</source>
        <translation>{field} fehlt.</translation>
    </message>
    <message>
        <source>{field} is {value}, not a whole number.</source>
        <translation>{field} ist {value}, keine ganze Zahl.</translation>
    </message>
    <message>
        <source>{field} is {value}, not a number.</source>
        <translation>{field} ist {value}, keine Zahl.</translation>
    </message>
    <message>
        <source>{field} is {value}, but must be above 0.</source>
        <translation>{field} ist {value}, muss aber größer als 0 sein.</translation>
    </message>
    <message>
        <source>{field} is {value}, not true or false.</source>
        <translation>{field} ist {value}, nicht true oder false.</translation>
    </message>
    <message>
        <source>{field} is {value}, not text.</source>
        <translation>{field} ist {value}, kein Text.</translation>
    </message>
    <message>
        <source>{path}: the model uses {feature} ({field} = {value}), which is not supported.</source>
        <translation>{path}: Das Modell verwendet {feature} ({field} = {value}); das wird nicht unterstützt.</translation>
    </message>
    <message>
        <source>the model uses {feature} ({field} = {value})</source>
        <translation>Das Modell verwendet {feature} ({field} = {value})</translation>
    </message>
    <message>
        <source>{field} is {value}, out of any sensible range.</source>
        <translation>{field} ist {value} und liegt außerhalb jedes sinnvollen Bereichs.</translation>
    </message>
    <message>
        <source>This architecture runs through the library {name}, which cannot be imported.</source>
        <translation>Diese Architektur läuft über die Bibliothek {name}, die sich nicht importieren lässt.</translation>
    </message>
    <message>
        <source>Run pip install {name}, or choose another model.</source>
        <translation>pip install {name} ausführen oder ein anderes Modell wählen.</translation>
    </message>
    <message>
        <source>{path}: transformers cannot run this {architecture} ({error}).</source>
        <translation>{path}: transformers kann {architecture} nicht ausführen ({error}).</translation>
    </message>
    <message>
        <source>Download the model again, or choose another one.</source>
        <translation>Das Modell erneut herunterladen oder ein anderes wählen.</translation>
    </message>
    <message>
        <source>{field} is not a list of names.</source>
        <translation>{field} ist keine Liste von Namen.</translation>
    </message>
    <message>
        <source>{field} is {value}; at most {most} are believable.</source>
        <translation>{field} ist {value}; glaubhaft sind höchstens {most}.</translation>
    </message>
    <message>
        <source>{path}: this architecture&apos;s layers cannot stay on the disk.</source>
        <translation>{path}: Die Schichten dieser Architektur können nicht auf dem Laufwerk bleiben.</translation>
    </message>
    <message>
        <source>Choose a smaller format, or a smaller model.</source>
        <translation>Ein kleineres Format oder ein kleineres Modell wählen.</translation>
    </message>
    <message>
        <source>an encoder</source>
        <translation>einen Encoder</translation>
    </message>
    <message>
        <source>an encoder beside the decoder</source>
        <translation>einen Encoder neben dem Decoder</translation>
    </message>
    <message>
        <source>attention to something beside the text</source>
        <translation>Attention auf etwas anderes als den Text</translation>
    </message>
    <message>
        <source>attention that looks ahead</source>
        <translation>vorausschauende Attention</translation>
    </message>
    <message>
        <source>An edit or another try reads the whole chat again: the layers keep a running state, from which no token can be taken back.</source>
        <translation>Nach einer Bearbeitung oder einem neuen Versuch wird der ganze Chat noch einmal eingelesen: Die Schichten führen einen laufenden Zustand, aus dem sich kein Token zurücknehmen lässt.</translation>
    </message>
    <message>
        <source>Chats share nothing of a common beginning: each has a cache of its own.</source>
        <translation>Chats mit gleichem Anfang teilen sich nichts: Jeder hat einen eigenen Cache.</translation>
    </message>
    <message>
        <source>Answers that run at once take turns: each is computed by a pass of its own.</source>
        <translation>Gleichzeitige Antworten wechseln sich ab: Jede wird in einem eigenen Durchlauf berechnet.</translation>
    </message>
    <message>
        <source>{path}: architecture not supported: {name}, {reason}.</source>
        <translation>{path}: Architektur nicht unterstützt: {name}, {reason}.</translation>
    </message>
    <message>
        <source>Choose a model made for chat.</source>
        <translation>Ein Chatmodell wählen.</translation>
    </message>
    <message>
        <source>Of the type {type}, this version runs {name}.</source>
        <translation>Vom Typ {type} unterstützt diese Version nur {name}.</translation>
    </message>
    <message>
        <source>{path}: tensor {tensor} has the type {type}, which is not supported for this architecture.</source>
        <translation>{path}: Tensor {tensor} hat den Typ {type}, der für diese Architektur nicht unterstützt wird.</translation>
    </message>
    <message>
        <source>Choose the weights in 16 or 32 bits.</source>
        <translation>Die Gewichte mit 16 oder 32 Bit wählen.</translation>
    </message>
    <message>
        <source>an encoder: it reads text and writes none</source>
        <translation>ein Encoder: liest Text, schreibt aber keinen</translation>
    </message>
    <message>
        <source>half of a model that has an encoder too</source>
        <translation>die Hälfte eines Modells, das auch einen Encoder hat</translation>
    </message>
    <message>
        <source>no chat model by itself: it goes with speech, images or another model</source>
        <translation>für sich allein kein Chatmodell: gehört zu Sprache, Bildern oder einem anderen Modell</translation>
    </message>
    <message>
        <source>run by transformers with a cache that prompts in pieces do not fit</source>
        <translation>läuft in transformers mit einem Cache, der sich nicht stückweise füllen lässt</translation>
    </message>
    <message>
        <source>{path}: tensor {tensor} does not fit the others of its kind.</source>
        <translation>{path}: Tensor {tensor} passt nicht zu den anderen seiner Art.</translation>
    </message>
    <message>
        <source>{path}: tensor {tensor} would have the shape {shape} in the model.</source>
        <translation>{path}: Tensor {tensor} hätte im Modell die Form {shape}.</translation>
    </message>
    <message>
        <source>{path}: tensor {tensor} is not one of {count} alike.</source>
        <translation>{path}: Tensor {tensor} gehört nicht zu {count} gleichartigen.</translation>
    </message>
    <message>
        <source>{path}: tensor {tensor} is of {rows} rows where the model has {needed}.</source>
        <translation>{path}: Tensor {tensor} hat {rows} Zeilen, das Modell {needed}.</translation>
    </message>
    <message>
        <source>{path}: the model has tensors that {class_name} does not know ({tensor}).</source>
        <translation>{path}: Das Modell hat Tensoren, die {class_name} nicht kennt ({tensor}).</translation>
    </message>
    <message>
        <source>{path}: tensor {tensor} has the shape {shape}, but the model&apos;s description needs {needed}.</source>
        <translation>{path}: Tensor {tensor} hat die Form {shape}, laut Beschreibung des Modells ist aber {needed} nötig.</translation>
    </message>
    <message>
        <source>the tensor count</source>
        <translation>Anzahl der Tensoren</translation>
    </message>
    <message>
        <source>the metadata key count</source>
        <translation>Anzahl der Metadatenschlüssel</translation>
    </message>
    <message>
        <source>the file ends inside its header, at {field}: {short} bytes are missing</source>
        <translation>Die Datei endet innerhalb ihrer Kopfdaten ({field}): {short} Byte fehlen</translation>
    </message>
    <message>
        <source>the header is larger than {most} bytes, at {field}</source>
        <translation>Die Kopfdaten sind größer als {most} Byte ({field})</translation>
    </message>
    <message>
        <source>the file became shorter while it was read, at {field}</source>
        <translation>Die Datei wurde während des Lesens kürzer ({field})</translation>
    </message>
    <message>
        <source>the length of {of}</source>
        <translation>Länge von {of}</translation>
    </message>
    <message>
        <source>{field} claims {length} bytes; at most {most} are allowed</source>
        <translation>{field}: {length} Byte angegeben, höchstens {most} erlaubt</translation>
    </message>
    <message>
        <source>{field} is not valid UTF-8: {bytes}</source>
        <translation>{field} ist kein gültiges UTF-8: {bytes}</translation>
    </message>
    <message>
        <source>{field} is empty</source>
        <translation>{field} ist leer</translation>
    </message>
    <message>
        <source>{path}: this is a big-endian GGUF file, which is not supported.</source>
        <translation>{path}: Dies ist eine Big-Endian-GGUF-Datei; das wird nicht unterstützt.</translation>
    </message>
    <message>
        <source>Get the little-endian file of this model.</source>
        <translation>Die Little-Endian-Datei dieses Modells besorgen.</translation>
    </message>
    <message>
        <source>a GGUF file</source>
        <translation>GGUF-Datei</translation>
    </message>
    <message>
        <source>the version</source>
        <translation>Version</translation>
    </message>
    <message>
        <source>{path}: GGUF version {version} is not supported (2 and 3 are).</source>
        <translation>{path}: GGUF-Version {version} wird nicht unterstützt (nur 2 und 3).</translation>
    </message>
    <message>
        <source>Convert the original model again with a current converter.</source>
        <translation>Das ursprüngliche Modell mit einem aktuellen Konverter neu umwandeln.</translation>
    </message>
    <message>
        <source>{field} is {count}, more than a file of {size} bytes can hold; it is damaged or cut off</source>
        <translation>{field}: {count}, mehr als eine Datei von {size} Byte fassen kann; sie ist beschädigt oder abgeschnitten</translation>
    </message>
    <message>
        <source>{field} is {count}; at most {most} are allowed</source>
        <translation>{field}: {count}, höchstens {most} erlaubt</translation>
    </message>
    <message>
        <source>metadata key {of}</source>
        <translation>Metadatenschlüssel {of}</translation>
    </message>
    <message>
        <source>the metadata key {key} appears twice</source>
        <translation>Der Metadatenschlüssel {key} kommt zweimal vor</translation>
    </message>
    <message>
        <source>the type of {of}</source>
        <translation>Typ von {of}</translation>
    </message>
    <message>
        <source>the value of {of}</source>
        <translation>Wert von {of}</translation>
    </message>
    <message>
        <source>the element type of {of}</source>
        <translation>Elementtyp von {of}</translation>
    </message>
    <message>
        <source>{field} is an array of arrays, which no model uses</source>
        <translation>{field} ist ein Array von Arrays, wie es kein Modell verwendet</translation>
    </message>
    <message>
        <source>{field} has the unknown element type {type}</source>
        <translation>{field} hat den unbekannten Elementtyp {type}</translation>
    </message>
    <message>
        <source>the number of elements in {of}</source>
        <translation>Anzahl der Elemente von {of}</translation>
    </message>
    <message>
        <source>{field} has the unknown type {type}</source>
        <translation>{field} hat den unbekannten Typ {type}</translation>
    </message>
    <message>
        <source>{field} is a bool that is neither 0 nor 1</source>
        <translation>{field} ist ein Wahrheitswert, der weder 0 noch 1 ist</translation>
    </message>
    <message>
        <source>element {number} of {of}</source>
        <translation>Element {number} von {of}</translation>
    </message>
    <message>
        <source>{field} is {value}; it must be a power of two from 8 to {most}</source>
        <translation>{field} ist {value}, muss aber eine Zweierpotenz von 8 bis {most} sein</translation>
    </message>
    <message>
        <source>the name of tensor {of}</source>
        <translation>Name von Tensor {of}</translation>
    </message>
    <message>
        <source>tensor {of}</source>
        <translation>Tensor {of}</translation>
    </message>
    <message>
        <source>the number of dimensions of {of}</source>
        <translation>Anzahl der Dimensionen von {of}</translation>
    </message>
    <message>
        <source>{tensor} claims {count} dimensions; a GGUF tensor has at most 4</source>
        <translation>{tensor}: {count} Dimensionen angegeben; ein GGUF-Tensor hat höchstens 4</translation>
    </message>
    <message>
        <source>the sizes of {of}</source>
        <translation>Größen von {of}</translation>
    </message>
    <message>
        <source>the offset of {of}</source>
        <translation>Offset von {of}</translation>
    </message>
    <message>
        <source>{path}: tensor {tensor} has the type {type}, which is not supported.</source>
        <translation>{path}: Tensor {tensor} hat den Typ {type}, der nicht unterstützt wird.</translation>
    </message>
    <message>
        <source>Choose another quantization of this model, such as Q4_K_M or Q8_0.</source>
        <translation>Eine andere Quantisierung dieses Modells wählen, etwa Q4_K_M oder Q8_0.</translation>
    </message>
    <message>
        <source>tensor {tensor} has an impossible shape: {reason}</source>
        <translation>Tensor {tensor} hat eine unmögliche Form: {reason}</translation>
    </message>
    <message>
        <source>tensor {tensor} appears twice</source>
        <translation>Tensor {tensor} kommt zweimal vor</translation>
    </message>
    <message>
        <source>tensor {tensor} starts at {offset}, not a multiple of {alignment}</source>
        <translation>Tensor {tensor} beginnt bei {offset}, das ist kein Vielfaches von {alignment}</translation>
    </message>
    <message>
        <source>Download the parts of one model into a folder of their own.</source>
        <translation>Die Teile eines Modells in einen eigenen Ordner herunterladen.</translation>
    </message>
    <message>
        <source>{path}: by its name this is part {part} of {parts}, by its content a whole model.</source>
        <translation>{path}: Dem Namen nach ist dies Teil {part} von {parts}, dem Inhalt nach ein ganzes Modell.</translation>
    </message>
    <message>
        <source>{path}: by its name this is part {part} of {parts}, by its content part {number} of {count}.</source>
        <translation>{path}: Dem Namen nach ist dies Teil {part} von {parts}, dem Inhalt nach Teil {number} von {count}.</translation>
    </message>
    <message>
        <source>{path}: this is part {number} of {count} of a split model, but its name does not say so.</source>
        <translation>{path}: Dies ist Teil {number} von {count} eines geteilten Modells, aber im Namen steht das nicht.</translation>
    </message>
    <message>
        <source>{path}: this is part {number} of {count} of a split model, but its name says {part} of {parts}.</source>
        <translation>{path}: Dies ist Teil {number} von {count} eines geteilten Modells, aber laut Namen {part} von {parts}.</translation>
    </message>
    <message>
        <source>Give all parts their names back: {name} is this one&apos;s.</source>
        <translation>Allen Teilen ihre Namen zurückgeben: Dieser heißt {name}.</translation>
    </message>
    <message>
        <source>{path}: this part of the model is missing ({found} of {count} parts are there).</source>
        <translation>{path}: Dieser Teil des Modells fehlt ({found} von {count} Teilen vorhanden).</translation>
    </message>
    <message>
        <source>{path}: this part of the model is missing, and {others} more ({found} of {count} parts are there).</source>
        <translation>{path}: Dieser Teil des Modells fehlt, außerdem noch {others} ({found} von {count} Teilen vorhanden).</translation>
    </message>
    <message>
        <source>Download it into the same folder; the parts that are there are kept.</source>
        <translation>In denselben Ordner herunterladen; vorhandene Teile bleiben erhalten.</translation>
    </message>
    <message>
        <source>tensor {tensor} is in another part too</source>
        <translation>Tensor {tensor} steht auch in einem anderen Teil</translation>
    </message>
    <message>
        <source>{path}: the model has {stated} tensors, but its {parts} parts hold {count}.</source>
        <translation>{path}: Das Modell hat {stated} Tensoren, seine {parts} Teile enthalten aber {count}.</translation>
    </message>
    <message>
        <source>The parts are of different models: download them again into a folder of their own.</source>
        <translation>Die Teile gehören zu verschiedenen Modellen: in einen eigenen Ordner neu herunterladen.</translation>
    </message>
    <message>
        <source>a mixture of experts</source>
        <translation>Mixture of Experts</translation>
    </message>
    <message>
        <source>a scale of attention</source>
        <translation>eine eigene Skalierung der Attention</translation>
    </message>
    <message>
        <source>scaled logits</source>
        <translation>skalierte Logits</translation>
    </message>
    <message>
        <source>scaled residuals</source>
        <translation>skalierte Residualverbindungen</translation>
    </message>
    <message>
        <source>scaled embeddings</source>
        <translation>skalierte Embeddings</translation>
    </message>
    <message>
        <source>soft-capped attention</source>
        <translation>weich begrenzte Attention (Softcapping)</translation>
    </message>
    <message>
        <source>soft-capped logits</source>
        <translation>weich begrenzte Logits (Softcapping)</translation>
    </message>
    <message>
        <source>clamped queries and keys</source>
        <translation>begrenzte Queries und Keys</translation>
    </message>
    <message>
        <source>ALiBi positions</source>
        <translation>ALiBi-Positionen</translation>
    </message>
    <message>
        <source>parallel residuals</source>
        <translation>parallele Residualverbindungen</translation>
    </message>
    <message>
        <source>an attention factor of its own</source>
        <translation>einen eigenen Attention-Faktor</translation>
    </message>
    <message>
        <source>an extrapolation factor of its own</source>
        <translation>einen eigenen Extrapolationsfaktor</translation>
    </message>
    <message>
        <source>{path}: tensor {tensor} is missing.</source>
        <translation>{path}: Tensor {tensor} fehlt.</translation>
    </message>
    <message>
        <source>Download the file again.</source>
        <translation>Die Datei erneut herunterladen.</translation>
    </message>
    <message>
        <source>image projector</source>
        <translation>Bildprojektor</translation>
    </message>
    <message>
        <source>{path}: this is an addition to a model ({what}), not a model to chat with.</source>
        <translation>{path}: Dies ist ein Zusatz zu einem Modell ({what}), kein Modell zum Chatten.</translation>
    </message>
    <message>
        <source>Choose the model&apos;s main file.</source>
        <translation>Die Hauptdatei des Modells wählen.</translation>
    </message>
    <message>
        <source>{path}: the file holds no weights, only a description or vocabulary.</source>
        <translation>{path}: Die Datei enthält keine Gewichte, nur eine Beschreibung oder ein Vokabular.</translation>
    </message>
    <message>
        <source>{field} is {heads}, which does not divide {divided}.</source>
        <translation>{field} ist {heads} und damit kein Teiler von {divided}.</translation>
    </message>
    <message>
        <source>{path}: attention keys have {keys} numbers and values {values}; different lengths are not supported.</source>
        <translation>{path}: Keys der Attention haben {keys} Zahlen, Values {values}; verschiedene Längen werden nicht unterstützt.</translation>
    </message>
    <message>
        <source>{path}: only {rotated} of {size} numbers of a head are rotated (partial rotary embedding), which is not supported.</source>
        <translation>{path}: Nur {rotated} von {size} Zahlen eines Heads werden rotiert (partielles Rotary Embedding); das wird nicht unterstützt.</translation>
    </message>
    <message>
        <source>{field} is not a list of {count} flags.</source>
        <translation>{field} ist keine Liste von {count} Wahrheitswerten.</translation>
    </message>
    <message>
        <source>{path}: rope scaling of the type {type} is not supported (none, linear, yarn, and longrope with its factors are).</source>
        <translation>{path}: RoPE-Skalierung vom Typ {type} wird nicht unterstützt (nur none, linear, yarn und longrope mit seinen Faktoren).</translation>
    </message>
    <message>
        <source>{field} is {value}, but must be from 1 to {most}.</source>
        <translation>{field} ist {value}, muss aber zwischen 1 und {most} liegen.</translation>
    </message>
    <message>
        <source>{field} is {value}, but YaRN needs more than 1.</source>
        <translation>{field} ist {value}, YaRN braucht aber mehr als 1.</translation>
    </message>
    <message>
        <source>{field} is {value}, but must be above {other} ({other_value}).</source>
        <translation>{field} ist {value}, muss aber größer als {other} ({other_value}) sein.</translation>
    </message>
    <message>
        <source>Download the model again; complete files are kept.</source>
        <translation>Das Modell erneut herunterladen; vollständige Dateien bleiben erhalten.</translation>
    </message>
    <message>
        <source>{path}: {size} bytes are far too many for this file.</source>
        <translation>{path}: {size} Byte sind viel zu viel für diese Datei.</translation>
    </message>
    <message>
        <source>{path}: the file is empty.</source>
        <translation>{path}: Die Datei ist leer.</translation>
    </message>
    <message>
        <source>too deeply nested</source>
        <translation>zu tief verschachtelt</translation>
    </message>
    <message>
        <source>{path}: this is not valid JSON ({reason}).</source>
        <translation>{path}: Dies ist kein gültiges JSON ({reason}).</translation>
    </message>
    <message>
        <source>{path}: this is not a JSON object.</source>
        <translation>{path}: Dies ist kein JSON-Objekt.</translation>
    </message>
    <message>
        <source>{path}: the folder cannot be read ({reason}).</source>
        <translation>{path}: Der Ordner ist nicht lesbar ({reason}).</translation>
    </message>
    <message>
        <source>{path}: the weights lie in several files ({first} …), but {index} is missing.</source>
        <translation>{path}: Die Gewichte liegen in mehreren Dateien ({first} …), aber {index} fehlt.</translation>
    </message>
    <message>
        <source>{path}: this is an adapter (LoRA), not a whole model.</source>
        <translation>{path}: Dies ist ein Adapter (LoRA), kein ganzes Modell.</translation>
    </message>
    <message>
        <source>{path}: there are no weights here (no *.safetensors, no *.gguf).</source>
        <translation>{path}: Hier sind keine Gewichte (weder *.safetensors noch *.gguf).</translation>
    </message>
    <message>
        <source>{path}: these weights are a Python pickle, which could run code when opened.</source>
        <translation>{path}: Diese Gewichte sind eine Python-Pickle-Datei, die beim Öffnen Code ausführen könnte.</translation>
    </message>
    <message>
        <source>Get the model as safetensors or GGUF.</source>
        <translation>Das Modell als safetensors oder GGUF besorgen.</translation>
    </message>
    <message>
        <source>{path}: {field} is missing.</source>
        <translation>{path}: {field} fehlt.</translation>
    </message>
    <message>
        <source>{path}: {value} is not the name of a file beside it.</source>
        <translation>{path}: {value} ist nicht der Name einer Datei im selben Ordner.</translation>
    </message>
    <message>
        <source>{path}: tensor {tensor} is not in this file.</source>
        <translation>{path}: Tensor {tensor} ist nicht in dieser Datei.</translation>
    </message>
    <message>
        <source>{path}: this part of the weights is missing.</source>
        <translation>{path}: Dieser Teil der Gewichte fehlt.</translation>
    </message>
    <message numerus="yes">
        <source>{path}: this part of the weights is missing and %n more file(s).</source>
        <translation>
            <numerusform>{path}: Dieser Teil der Gewichte fehlt, außerdem %n weitere Datei.</numerusform>
            <numerusform>{path}: Dieser Teil der Gewichte fehlt, außerdem %n weitere Dateien.</numerusform>
        </translation>
    </message>
    <message>
        <source>Rename {other} to {name}.</source>
        <translation>{other} in {name} umbenennen.</translation>
    </message>
    <message>
        <source>{path}: rope scaling of layers with a sliding window is not supported.</source>
        <translation>{path}: RoPE-Skalierung von Schichten mit gleitendem Fenster wird nicht unterstützt.</translation>
    </message>
    <message>
        <source>{field} is {value}, not an object.</source>
        <translation>{field} ist {value}, kein Objekt.</translation>
    </message>
    <message>
        <source>{path}: {field} differs from layer to layer, which is not supported.</source>
        <translation>{path}: {field} ist je nach Schicht verschieden; das wird nicht unterstützt.</translation>
    </message>
    <message>
        <source>{field} has an entry that is no object.</source>
        <translation>{field} hat einen Eintrag, der kein Objekt ist.</translation>
    </message>
    <message>
        <source>{path}: a partial rotary embedding is not supported.</source>
        <translation>{path}: Ein partielles Rotary Embedding wird nicht unterstützt.</translation>
    </message>
    <message>
        <source>{field} is {value}, which leaves no whole pairs of {size}.</source>
        <translation>{field} ist {value}; damit ergeben sich aus {size} keine ganzen Paare.</translation>
    </message>
    <message>
        <source>{path}: rope scaling of the type {type} is not supported (default, linear, llama3, yarn and longrope are).</source>
        <translation>{path}: RoPE-Skalierung vom Typ {type} wird nicht unterstützt (nur default, linear, llama3, yarn und longrope).</translation>
    </message>
    <message>
        <source>{field} times the factor is out of any sensible range.</source>
        <translation>{field} mal Faktor liegt außerhalb jedes sinnvollen Bereichs.</translation>
    </message>
    <message>
        <source>{field} is {value}, but must be below {other} ({other_value}).</source>
        <translation>{field} ist {value}, muss aber kleiner als {other} ({other_value}) sein.</translation>
    </message>
    <message>
        <source>{field} is {value}, not a list.</source>
        <translation>{field} ist {value}, keine Liste.</translation>
    </message>
    <message>
        <source>{field} has {count} numbers, but there are {pairs} pairs to rotate.</source>
        <translation>{field} hat {count} Zahlen, zu rotieren sind aber {pairs} Paare.</translation>
    </message>
    <message>
        <source>Download {file} again.</source>
        <translation>{file} erneut herunterladen.</translation>
    </message>
    <message>
        <source>{path}: the model ({name}) needs Python code of its own, which is never run.</source>
        <translation>{path}: Das Modell ({name}) braucht eigenen Python-Code; solcher Code wird nie ausgeführt.</translation>
    </message>
    <message>
        <source>Choose a model of a supported architecture, or its GGUF.</source>
        <translation>Ein Modell mit unterstützter Architektur oder dessen GGUF wählen.</translation>
    </message>
    <message>
        <source>the program has no decoder of its own for {type}</source>
        <translation>Das Programm hat keinen eigenen Decoder für {type}</translation>
    </message>
    <message>
        <source>{path}: {field} is {value}, not an object.</source>
        <translation>{path}: {field} ist {value}, kein Objekt.</translation>
    </message>
    <message>
        <source>{path}: the weights are quantized ({method}), which is not supported here.</source>
        <translation>{path}: Die Gewichte sind quantisiert ({method}); das wird hier nicht unterstützt.</translation>
    </message>
    <message>
        <source>Choose the original weights or a GGUF.</source>
        <translation>Die Originalgewichte oder ein GGUF wählen.</translation>
    </message>
    <message>
        <source>{path}: the activation {name} is not supported ({known} are).</source>
        <translation>{path}: Die Aktivierung {name} wird nicht unterstützt (nur {known}).</translation>
    </message>
    <message>
        <source>the activation {name} is not supported ({known} are)</source>
        <translation>Die Aktivierung {name} wird nicht unterstützt (nur {known})</translation>
    </message>
    <message>
        <source>{field} is not a list of {count} types.</source>
        <translation>{field} ist keine Liste von {count} Typen.</translation>
    </message>
    <message>
        <source>{path}: layers of the type {type} are not supported.</source>
        <translation>{path}: Schichten vom Typ {type} werden nicht unterstützt.</translation>
    </message>
    <message>
        <source>{field} is not a list of {count} zeros and ones.</source>
        <translation>{field} ist keine Liste von {count} Nullen und Einsen.</translation>
    </message>
    <message>
        <source>The file is damaged or incomplete: download it again.</source>
        <translation>Die Datei ist beschädigt oder unvollständig: erneut herunterladen.</translation>
    </message>
    <message>
        <source>{path}: tensor {tensor} and {others} more is missing.</source>
        <translation>{path}: Tensor {tensor} fehlt, außerdem noch {others}.</translation>
    </message>
    <message>
        <source>The model is incomplete: download it again.</source>
        <translation>Das Modell ist unvollständig: erneut herunterladen.</translation>
    </message>
    <message>
        <source>tensors {first} and {second} overlap</source>
        <translation>Die Tensoren {first} und {second} überlappen sich</translation>
    </message>
    <message>
        <source>the file is {short} bytes short: tensor {tensor} is cut off</source>
        <translation>Die Datei ist {short} Byte zu kurz: Tensor {tensor} ist abgeschnitten</translation>
    </message>
    <message>
        <source>tensor {tensor} was never written, its download never ended</source>
        <translation>Tensor {tensor} wurde nie geschrieben, sein Download nie beendet</translation>
    </message>
    <message>
        <source>{field} is not an object</source>
        <translation>{field} ist kein Objekt</translation>
    </message>
    <message>
        <source>a safetensors file</source>
        <translation>safetensors-Datei</translation>
    </message>
    <message>
        <source>its header claims {claimed} bytes, but the file has only {size}</source>
        <translation>Die Kopfdaten sollen {claimed} Byte lang sein, die Datei hat aber nur {size}</translation>
    </message>
    <message>
        <source>its header of {size} bytes is beyond the limit of {most}</source>
        <translation>Die Kopfdaten überschreiten mit {size} Byte die Grenze von {most}</translation>
    </message>
    <message>
        <source>its header is not a JSON object</source>
        <translation>Die Kopfdaten sind kein JSON-Objekt</translation>
    </message>
    <message>
        <source>the file became shorter while it was read</source>
        <translation>Die Datei wurde während des Lesens kürzer</translation>
    </message>
    <message>
        <source>a name appears twice</source>
        <translation>ein Name kommt zweimal vor</translation>
    </message>
    <message>
        <source>its header is not valid JSON ({reason})</source>
        <translation>Die Kopfdaten sind kein gültiges JSON ({reason})</translation>
    </message>
    <message>
        <source>the entry of tensor {tensor} is not an object</source>
        <translation>Der Eintrag von Tensor {tensor} ist kein Objekt</translation>
    </message>
    <message>
        <source>the entry of tensor {tensor} lacks a dtype, shape or data_offsets</source>
        <translation>Im Eintrag von Tensor {tensor} fehlt dtype, shape oder data_offsets</translation>
    </message>
    <message>
        <source>{path}: tensor {tensor} has the unknown type {type}.</source>
        <translation>{path}: Tensor {tensor} hat den unbekannten Typ {type}.</translation>
    </message>
    <message>
        <source>tensor {tensor} takes {size} bytes, but its shape needs {needed}</source>
        <translation>Tensor {tensor} belegt {size} Byte, seine Form braucht aber {needed}</translation>
    </message>
    <message>
        <source>tensors {first} and {second} leave a hole of {size} bytes between them</source>
        <translation>Zwischen den Tensoren {first} und {second} klafft eine Lücke von {size} Byte</translation>
    </message>
    <message>
        <source>the file holds bytes that belong to no tensor</source>
        <translation>Die Datei enthält Bytes, die zu keinem Tensor gehören</translation>
    </message>
    <message>
        <source>a gzip archive</source>
        <translation>ein gzip-Archiv</translation>
    </message>
    <message>
        <source>a 7-Zip archive</source>
        <translation>ein 7-Zip-Archiv</translation>
    </message>
    <message>
        <source>a RAR archive</source>
        <translation>ein RAR-Archiv</translation>
    </message>
    <message>
        <source>an xz archive</source>
        <translation>ein xz-Archiv</translation>
    </message>
    <message>
        <source>a Zstandard archive</source>
        <translation>ein Zstandard-Archiv</translation>
    </message>
    <message>
        <source>{path}: cannot be opened ({error}).</source>
        <translation>{path}: Öffnen nicht möglich ({error}).</translation>
    </message>
    <message>
        <source>Check the path.</source>
        <translation>Den Pfad prüfen.</translation>
    </message>
    <message>
        <source>{path}: there is no such file.</source>
        <translation>{path}: Diese Datei gibt es nicht.</translation>
    </message>
    <message>
        <source>{path}: no permission to read this file.</source>
        <translation>{path}: Keine Berechtigung, diese Datei zu lesen.</translation>
    </message>
    <message>
        <source>Give yourself the right to read it.</source>
        <translation>Das Leserecht für die Datei vergeben.</translation>
    </message>
    <message>
        <source>{path}: cannot be read ({reason}).</source>
        <translation>{path}: Lesen nicht möglich ({reason}).</translation>
    </message>
    <message>
        <source>Check the disk it lies on.</source>
        <translation>Das Laufwerk der Datei prüfen.</translation>
    </message>
    <message>
        <source>{path}: this is a folder, not a model file.</source>
        <translation>{path}: Dies ist ein Ordner, keine Modelldatei.</translation>
    </message>
    <message>
        <source>{path}: this is not a regular file.</source>
        <translation>{path}: Dies ist keine reguläre Datei.</translation>
    </message>
    <message>
        <source>Choose a model file.</source>
        <translation>Eine Modelldatei wählen.</translation>
    </message>
    <message>
        <source>{path}: the file begins with zeros; its download was cut.</source>
        <translation>{path}: Die Datei beginnt mit Nullen; ihr Download wurde abgebrochen.</translation>
    </message>
    <message>
        <source>{path}: the file is empty (0 bytes).</source>
        <translation>{path}: Die Datei ist leer (0 Byte).</translation>
    </message>
    <message>
        <source>{path}: this is a GGUF file, not {wanted}.</source>
        <translation>{path}: Dies ist eine GGUF-Datei, keine {wanted}.</translation>
    </message>
    <message>
        <source>Rename it to end in .gguf.</source>
        <translation>So umbenennen, dass der Name auf .gguf endet.</translation>
    </message>
    <message>
        <source>{path}: this is an old {format} file, a format from before GGUF.</source>
        <translation>{path}: Dies ist eine alte {format}-Datei, ein Format aus der Zeit vor GGUF.</translation>
    </message>
    <message>
        <source>{path}: this is a Python pickle, not {wanted}; opening it could run code.</source>
        <translation>{path}: Dies ist eine Python-Pickle-Datei, keine {wanted}; beim Öffnen könnte sie Code ausführen.</translation>
    </message>
    <message>
        <source>{path}: this is a zip archive, not {wanted}.</source>
        <translation>{path}: Dies ist ein ZIP-Archiv, keine {wanted}.</translation>
    </message>
    <message>
        <source>Unpack it first.</source>
        <translation>Zuerst entpacken.</translation>
    </message>
    <message>
        <source>{path}: this is {what}, not {wanted}.</source>
        <translation>{path}: Dies ist {what}, keine {wanted}.</translation>
    </message>
    <message>
        <source>{path}: this is a safetensors file, not {wanted}.</source>
        <translation>{path}: Dies ist eine safetensors-Datei, keine {wanted}.</translation>
    </message>
    <message>
        <source>Open its folder with config.json instead.</source>
        <translation>Stattdessen ihren Ordner mit config.json öffnen.</translation>
    </message>
    <message>
        <source>{path}: this is a Git LFS pointer; the real file was not fetched.</source>
        <translation>{path}: Dies ist ein Git-LFS-Zeiger; die eigentliche Datei wurde nicht geholt.</translation>
    </message>
    <message>
        <source>Run `git lfs pull`, or download the file itself.</source>
        <translation>`git lfs pull` ausführen oder die Datei selbst herunterladen.</translation>
    </message>
    <message>
        <source>{path}: this is a web page, not {wanted}; the download failed.</source>
        <translation>{path}: Dies ist eine Webseite, keine {wanted}; der Download ist fehlgeschlagen.</translation>
    </message>
    <message>
        <source>{path}: this is JSON text, not {wanted}.</source>
        <translation>{path}: Dies ist JSON-Text, keine {wanted}.</translation>
    </message>
    <message>
        <source>{path}: this is a server&apos;s error message, not {wanted}.</source>
        <translation>{path}: Dies ist die Fehlermeldung eines Servers, keine {wanted}.</translation>
    </message>
    <message>
        <source>{path}: this is not {wanted} (its first bytes are {bytes}).</source>
        <translation>{path}: Dies ist keine {wanted} (erste Bytes: {bytes}).</translation>
    </message>
    <message>
        <source>{path}: this is one piece of a file that was cut by hand.</source>
        <translation>{path}: Dies ist ein Stück einer von Hand zerteilten Datei.</translation>
    </message>
    <message>
        <source>Join the pieces in order into one .gguf file (`cat` or `copy /b`).</source>
        <translation>Die Stücke der Reihe nach zu einer .gguf-Datei verbinden (`cat` oder `copy /b`).</translation>
    </message>
    <message>
        <source>{path}: {name} is missing beside it.</source>
        <translation>{path}: {name} fehlt im selben Ordner.</translation>
    </message>
    <message>
        <source>Download the model&apos;s whole folder.</source>
        <translation>Den ganzen Ordner des Modells herunterladen.</translation>
    </message>
    <message>
        <source>{path}: there are {count} GGUF models here.</source>
        <translation>{path}: Hier liegen {count} GGUF-Modelle.</translation>
    </message>
    <message>
        <source>Choose one of them.</source>
        <translation>Eines davon wählen.</translation>
    </message>
    <message>
        <source>{path}: {name} is missing.</source>
        <translation>{path}: {name} fehlt.</translation>
    </message>
    <message>
        <source>{path}: the model claims {layers} layers, but the file holds only {tensors} tensors.</source>
        <translation>{path}: Das Modell gibt {layers} Schichten an, die Datei enthält aber nur {tensors} Tensoren.</translation>
    </message>
    <message>
        <source>{path}: {field} is {size}; at most {most} are believable.</source>
        <translation>{path}: {field} ist {size}; glaubhaft sind höchstens {most}.</translation>
    </message>
    <message>
        <source>{path}: heads of {size} numbers cannot be rotated in pairs.</source>
        <translation>{path}: Heads mit {size} Zahlen lassen sich nicht paarweise rotieren.</translation>
    </message>
    <message>
        <source>{path}: {heads} heads cannot share {key_heads} key heads evenly.</source>
        <translation>{path}: {heads} Heads lassen sich nicht gleichmäßig auf {key_heads} Key-Heads verteilen.</translation>
    </message>
    <message>
        <source>{path}: the model has a mixture of experts ({tensor}), which is not supported.</source>
        <translation>{path}: Das Modell verwendet Mixture of Experts ({tensor}); das wird nicht unterstützt.</translation>
    </message>
    <message>
        <source>{path}: the model has biases ({tensor}), which is not supported.</source>
        <translation>{path}: Das Modell hat Bias-Werte ({tensor}); das wird nicht unterstützt.</translation>
    </message>
    <message>
        <source>{path}: the model has tensors that the {title} architecture here does not know ({tensor}), which is not supported.</source>
        <translation>{path}: Das Modell hat Tensoren, die die Architektur {title} hier nicht kennt ({tensor}); das wird nicht unterstützt.</translation>
    </message>
    <message>
        <source>{reason}: decoding runs on torch&apos;s own kernels and is slower.</source>
        <translation>{reason}: Das Decodieren läuft mit den Kerneln von torch und ist langsamer.</translation>
    </message>
    <message>
        <source>There is no libtorch_cpu in {folder}: the native kernels use one thread.</source>
        <translation>In {folder} fehlt libtorch_cpu: Die nativen Kernel nutzen nur einen Thread.</translation>
    </message>
    <message>
        <source>torch brings no GNU-compatible OpenMP here: the native kernels use one thread.</source>
        <translation>torch bringt hier kein GNU-kompatibles OpenMP mit: Die nativen Kernel nutzen nur einen Thread.</translation>
    </message>
    <message>
        <source>The native kernels are switched off by {setting}</source>
        <translation>Die nativen Kernel sind mit {setting} abgeschaltet</translation>
    </message>
    <message>
        <source>{setting} is none of {known}</source>
        <translation>{setting} ist unbekannt (möglich: {known})</translation>
    </message>
    <message>
        <source>The native kernels are not built on Windows yet</source>
        <translation>Die nativen Kernel werden unter Windows noch nicht gebaut</translation>
    </message>
    <message>
        <source>The native kernels were not built (no C++ compiler at install time, or it failed)</source>
        <translation>Die nativen Kernel wurden nicht gebaut (der C++-Compiler fehlte bei der Installation oder scheiterte)</translation>
    </message>
    <message>
        <source>Install a C++ compiler and run pip install again.</source>
        <translation>Einen C++-Compiler installieren und pip install erneut ausführen.</translation>
    </message>
    <message>
        <source>The native kernels&apos; file is incomplete</source>
        <translation>Die Datei der nativen Kernel ist unvollständig</translation>
    </message>
    <message>
        <source>The native kernels are of another version ({version}, not {needed})</source>
        <translation>Die nativen Kernel haben eine andere Version ({version} statt {needed})</translation>
    </message>
    <message>
        <source>The native kernels cannot be loaded ({error})</source>
        <translation>Die nativen Kernel lassen sich nicht laden ({error})</translation>
    </message>
    <message>
        <source>Run pip install again.</source>
        <translation>pip install erneut ausführen.</translation>
    </message>
    <message>
        <source>{setting}, but this processor has {known} alone</source>
        <translation>{setting}, aber dieser Prozessor hat nur {known}</translation>
    </message>
    <message>
        <source>bitsandbytes cannot be used here ({reason}).</source>
        <translation>bitsandbytes ist hier nicht verwendbar ({reason}).</translation>
    </message>
    <message>
        <source>Choose int4 or int8.</source>
        <translation>int4 oder int8 wählen.</translation>
    </message>
    <message>
        <source>{type} (withdrawn from GGUF)</source>
        <translation>{type} (aus GGUF entfernt)</translation>
    </message>
    <message>
        <source>number {number} (unknown)</source>
        <translation>Nummer {number} (unbekannt)</translation>
    </message>
    <message>
        <source>the shape {shape} has a size below 1</source>
        <translation>Die Form {shape} hat eine Größe unter 1</translation>
    </message>
    <message>
        <source>{type} needs rows of a multiple of {multiple} elements, not {row}</source>
        <translation>{type} braucht Zeilen mit einem Vielfachen von {multiple} Elementen, nicht {row}</translation>
    </message>
    <message>
        <source>the shape {shape} is larger than any file</source>
        <translation>Die Form {shape} ist größer als jede Datei</translation>
    </message>
    <message>
        <source>This model&apos;s tokenizer cannot read this text</source>
        <translation>Der Tokenizer dieses Modells kann diesen Text nicht lesen</translation>
    </message>
    <message>
        <source>Choose another file of this model.</source>
        <translation>Eine andere Datei dieses Modells wählen.</translation>
    </message>
    <message>
        <source>{count} merges lead out of the vocabulary; ignored.</source>
        <translation>Merges außerhalb des Vokabulars: {count}; ignoriert.</translation>
    </message>
    <message>
        <source>The file&apos;s tokenizer cannot be used</source>
        <translation>Der Tokenizer der Datei ist nicht verwendbar</translation>
    </message>
    <message>
        <source>The vocabulary lacks {count} of the bytes of text: some characters get lost.</source>
        <translation>Dem Vokabular fehlen Bytes von Texten ({count}): Manche Zeichen gehen verloren.</translation>
    </message>
    <message>
        <source>There is no unfinished answer to continue.</source>
        <translation>Es gibt keine unfertige Antwort zum Fortsetzen.</translation>
    </message>
    <message>
        <source>Ask a question, or continue a model&apos;s message.</source>
        <translation>Eine Frage stellen oder eine Nachricht des Modells fortsetzen.</translation>
    </message>
    <message>
        <source>This model&apos;s chat template has no place for an unfinished thought.</source>
        <translation>Die Chatvorlage dieses Modells sieht kein unterbrochenes Nachdenken vor.</translation>
    </message>
    <message>
        <source>Have it answer anew instead.</source>
        <translation>Stattdessen neu antworten lassen.</translation>
    </message>
    <message>
        <source>it sums up lists, which takes too long</source>
        <translation>Sie addiert Listen, was zu lange dauert</translation>
    </message>
    <message>
        <source>The {key} {value} is outside the vocabulary of {count} tokens; ignored.</source>
        <translation>{key} {value} liegt außerhalb des Vokabulars von {count} Tokens; ignoriert.</translation>
    </message>
    <message>
        <source>the file has no tokenizer</source>
        <translation>Die Datei hat keinen Tokenizer</translation>
    </message>
    <message>
        <source>The tokenizer kind {kind} is not supported.</source>
        <translation>Die Tokenizer-Art {kind} wird nicht unterstützt.</translation>
    </message>
    <message>
        <source>Models with a BPE or SentencePiece tokenizer (gpt2, gemma4, llama) run.</source>
        <translation>Unterstützt werden Modelle mit BPE- oder SentencePiece-Tokenizer (gpt2, gemma4, llama).</translation>
    </message>
    <message>
        <source>the file does not say how its tokenizer splits text (tokenizer.ggml.pre)</source>
        <translation>Die Datei gibt nicht an, wie ihr Tokenizer Text zerlegt (tokenizer.ggml.pre)</translation>
    </message>
    <message>
        <source>The tokenizer splits text by an unknown rule, {rule} (tokenizer.ggml.pre).</source>
        <translation>Der Tokenizer zerlegt Text nach einer unbekannten Regel, {rule} (tokenizer.ggml.pre).</translation>
    </message>
    <message>
        <source>Known rules: {rules}.</source>
        <translation>Bekannte Regeln: {rules}.</translation>
    </message>
    <message>
        <source>its tokenizer has no {key} ({name})</source>
        <translation>Im Tokenizer fehlt {key} ({name})</translation>
    </message>
    <message>
        <source>its tokenizer has not one type for each token (tokenizer.ggml.token_type)</source>
        <translation>Der Tokenizer hat nicht für jedes Token einen Typ (tokenizer.ggml.token_type)</translation>
    </message>
    <message>
        <source>its tokenizer has not one score for each token (tokenizer.ggml.scores)</source>
        <translation>Der Tokenizer hat nicht für jedes Token eine Bewertung (tokenizer.ggml.scores)</translation>
    </message>
    <message>
        <source>a score of its tokenizer is not a number (tokenizer.ggml.scores)</source>
        <translation>Eine Bewertung im Tokenizer ist keine Zahl (tokenizer.ggml.scores)</translation>
    </message>
    <message>
        <source>its tokenizer has the token {token} twice (tokenizer.ggml.tokens)</source>
        <translation>Der Tokenizer hat das Token {token} zweimal (tokenizer.ggml.tokens)</translation>
    </message>
    <message>
        <source>All pieces have one score: words may be cut otherwise than the model knows.</source>
        <translation>Alle Stücke haben dieselbe Bewertung: Wörter werden womöglich anders zerlegt, als das Modell es kennt.</translation>
    </message>
    <message>
        <source>its tokenizer lacks {count} of the 256 bytes (&lt;0x00&gt; to &lt;0xFF&gt;)</source>
        <translation>Dem Tokenizer fehlen {count} der 256 Bytes (&lt;0x00&gt; bis &lt;0xFF&gt;)</translation>
    </message>
    <message>
        <source>The tokenizer&apos;s {step} can make a text many thousand times as long, or never end.</source>
        <translation>Der Schritt {step} des Tokenizers kann einen Text auf das Vieltausendfache verlängern oder nie enden.</translation>
    </message>
    <message>
        <source>The text is too long for the way in which this model&apos;s tokenizer rewrites it.</source>
        <translation>Der Text ist zu lang für die Art, wie der Tokenizer dieses Modells ihn umschreibt.</translation>
    </message>
    <message>
        <source>Send it in smaller parts.</source>
        <translation>In kleineren Teilen senden.</translation>
    </message>
    <message>
        <source>The tokenizer has a step of an unknown kind, {kind}.</source>
        <translation>Der Tokenizer hat einen Schritt unbekannter Art, {kind}.</translation>
    </message>
    <message>
        <source>The tokenizer&apos;s table of characters (precompiled_charsmap) is damaged.</source>
        <translation>Die Zeichentabelle des Tokenizers (precompiled_charsmap) ist beschädigt.</translation>
    </message>
    <message>
        <source>Download the folder again.</source>
        <translation>Den Ordner erneut herunterladen.</translation>
    </message>
    <message>
        <source>it searches a text in a way that takes too long</source>
        <translation>Sie durchsucht einen Text auf eine Art, die zu lange dauert</translation>
    </message>
    <message>
        <source>it formats a text with a width that is too large</source>
        <translation>Sie formatiert einen Text mit zu großer Breite</translation>
    </message>
    <message>
        <source>it computes a number that is too large</source>
        <translation>Sie berechnet eine zu große Zahl</translation>
    </message>
    <message>
        <source>the folder has no tokenizer.json</source>
        <translation>Im Ordner fehlt tokenizer.json</translation>
    </message>
    <message>
        <source>The {name} {value} is not valid text; ignored.</source>
        <translation>{name} {value} ist kein gültiger Text; ignoriert.</translation>
    </message>
    <message>
        <source>{path} holds no tokenizer that can be read</source>
        <translation>{path} enthält keinen lesbaren Tokenizer</translation>
    </message>
    <message>
        <source>The tokenizer model {kind} is not supported.</source>
        <translation>Das Tokenizer-Modell {kind} wird nicht unterstützt.</translation>
    </message>
    <message>
        <source>Models with BPE or Unigram tokenizers run.</source>
        <translation>Unterstützt werden Modelle mit BPE- oder Unigram-Tokenizer.</translation>
    </message>
    <message>
        <source>its tokenizer has no token for unknown characters (unk_id)</source>
        <translation>Der Tokenizer hat kein Token für unbekannte Zeichen (unk_id)</translation>
    </message>
    <message>
        <source>The end token {token} is outside the vocabulary of {count} tokens.</source>
        <translation>Das End-Token {token} liegt außerhalb des Vokabulars von {count} Tokens.</translation>
    </message>
    <message>
        <source>The tokenizer&apos;s decoder {kind} is not supported.</source>
        <translation>Der Decoder {kind} des Tokenizers wird nicht unterstützt.</translation>
    </message>
    <message>
        <source>Models with a byte-level or SentencePiece tokenizer run.</source>
        <translation>Unterstützt werden Modelle mit Byte-Level- oder SentencePiece-Tokenizer.</translation>
    </message>
    <message>
        <source>it ran longer than {seconds} seconds</source>
        <translation>Sie lief länger als {seconds} Sekunden</translation>
    </message>
    <message>
        <source>it uses too much memory</source>
        <translation>Sie braucht zu viel Speicher</translation>
    </message>
    <message>
        <source>its calls are nested too deeply</source>
        <translation>Ihre Aufrufe sind zu tief verschachtelt</translation>
    </message>
    <message>
        <source>it builds a text that is too long</source>
        <translation>Sie erzeugt einen zu langen Text</translation>
    </message>
    <message>
        <source>it builds a list that is too long</source>
        <translation>Sie erzeugt eine zu lange Liste</translation>
    </message>
    <message>
        <source>it uses a number that is too large</source>
        <translation>Sie verwendet eine zu große Zahl</translation>
    </message>
    <message>
        <source>it nests values too deeply</source>
        <translation>Sie verschachtelt Werte zu tief</translation>
    </message>
    <message>
        <source>The tokenizer splits text by a pattern that is longer than {most} characters: {pattern}.</source>
        <translation>Der Tokenizer zerlegt Text mit einem Muster, das länger als {most} Zeichen ist: {pattern}.</translation>
    </message>
    <message>
        <source>The tokenizer splits text by a pattern that leaves a group open: {pattern}.</source>
        <translation>Der Tokenizer zerlegt Text mit einem Muster, das eine Gruppe offen lässt: {pattern}.</translation>
    </message>
    <message>
        <source>The tokenizer splits text by a pattern that has a group of an unknown kind: {pattern}.</source>
        <translation>Der Tokenizer zerlegt Text mit einem Muster, das eine Gruppe unbekannter Art enthält: {pattern}.</translation>
    </message>
    <message>
        <source>The tokenizer splits text by a pattern that closes a group that is not open: {pattern}.</source>
        <translation>Der Tokenizer zerlegt Text mit einem Muster, das eine nicht geöffnete Gruppe schließt: {pattern}.</translation>
    </message>
    <message>
        <source>The tokenizer splits text by a pattern that refers to a part of itself, or has an unknown escape: {pattern}.</source>
        <translation>Der Tokenizer zerlegt Text mit einem Muster, das auf einen eigenen Teil verweist oder eine unbekannte Escape-Folge enthält: {pattern}.</translation>
    </message>
    <message>
        <source>The tokenizer splits text by a pattern that repeats a repetition: {pattern}.</source>
        <translation>Der Tokenizer zerlegt Text mit einem Muster, das eine Wiederholung wiederholt: {pattern}.</translation>
    </message>
    <message>
        <source>The tokenizer splits text by a pattern that repeats a part that repeats something itself: {pattern}.</source>
        <translation>Der Tokenizer zerlegt Text mit einem Muster, das einen Teil wiederholt, der selbst etwas wiederholt: {pattern}.</translation>
    </message>
    <message>
        <source>The tokenizer splits text by a pattern that repeats too many parts in a row: {pattern}.</source>
        <translation>Der Tokenizer zerlegt Text mit einem Muster, das zu viele Teile hintereinander wiederholt: {pattern}.</translation>
    </message>
    <message>
        <source>Such a pattern can take hours. Choose another file of this model.</source>
        <translation>Ein solches Muster kann Stunden dauern. Eine andere Datei dieses Modells wählen.</translation>
    </message>
    <message numerus="yes">
        <source>its vocabulary differs in %n token(s), such as {token}: {own} in the model, {other} in the draft</source>
        <translation>
            <numerusform>Das Vokabular weicht in %n Token ab: {token} ist im Modell {own}, im Entwurfsmodell {other}</numerusform>
            <numerusform>Das Vokabular weicht in %n Tokens ab, etwa {token}: im Modell {own}, im Entwurfsmodell {other}</numerusform>
        </translation>
    </message>
    <message>
        <source>its text begins with token {token}, the model&apos;s with {other}</source>
        <translation>Seine Texte beginnen mit Token {token}, die des Modells mit {other}</translation>
    </message>
    <message>
        <source>its answers end with {tokens}, the model&apos;s with {others}</source>
        <translation>Seine Antworten enden mit {tokens}, die des Modells mit {others}</translation>
    </message>
    <message>
        <source>none</source>
        <comment>no word</comment>
        <translation>keines</translation>
    </message>
    <message>
        <source>token {ids}</source>
        <translation>Token {ids}</translation>
    </message>
    <message>
        <source>no token</source>
        <translation>keinem Token</translation>
    </message>
    <message>
        <source>the attribute {name} of a {kind} is not allowed</source>
        <translation>Das Attribut {name} eines Objekts vom Typ {kind} ist nicht erlaubt</translation>
    </message>
    <message>
        <source>the call of {name} is not allowed</source>
        <translation>Der Aufruf von {name} ist nicht erlaubt</translation>
    </message>
    <message>
        <source>a call of {kind} is not allowed</source>
        <translation>Ein Aufruf von {kind} ist nicht erlaubt</translation>
    </message>
    <message>
        <source>the name {name} is not allowed in a namespace</source>
        <translation>Der Name {name} ist in einem Namespace nicht erlaubt</translation>
    </message>
    <message>
        <source>it formats a date with a text that is too long</source>
        <translation>Sie formatiert ein Datum mit einem zu langen Text</translation>
    </message>
    <message>
        <source>it is too long</source>
        <translation>Sie ist zu lang</translation>
    </message>
    <message>
        <source>The tokenizer&apos;s pieces are of more pairs of letters than any language has.</source>
        <translation>Die Stücke des Tokenizers haben mehr Buchstabenpaare als irgendeine Sprache.</translation>
    </message>
    <message>
        <source>This model takes no system message: yours was put before your first message.</source>
        <translation>Dieses Modell nimmt keine Systemnachricht an: Ihre Systemnachricht steht nun vor Ihrer ersten Nachricht.</translation>
    </message>
    <message>
        <source>Choose another model, or a newer file of this one.</source>
        <translation>Ein anderes Modell oder eine neuere Datei dieses Modells wählen.</translation>
    </message>
    <message>
        <source>This model&apos;s chat template drops the system message.</source>
        <translation>Die Chatvorlage dieses Modells lässt die Systemnachricht weg.</translation>
    </message>
    <message>
        <source>This model&apos;s chat template takes no tools.</source>
        <translation>Die Chatvorlage dieses Modells nimmt keine Werkzeuge an.</translation>
    </message>
    <message>
        <source>Ask without, or choose another model.</source>
        <translation>Ohne Werkzeuge fragen oder ein anderes Modell wählen.</translation>
    </message>
    <message>
        <source>A tool was called with arguments that are no JSON object, and its template takes no others.</source>
        <translation>Ein Werkzeug wurde mit Argumenten aufgerufen, die kein JSON-Objekt sind; andere nimmt die Chatvorlage nicht an.</translation>
    </message>
    <message>
        <source>Edit or delete the message with the call, or start a new chat.</source>
        <translation>Die Nachricht mit dem Aufruf bearbeiten oder löschen oder einen neuen Chat beginnen.</translation>
    </message>
    <message>
        <source>This model&apos;s chat template refuses these messages: {reason}</source>
        <translation>Die Chatvorlage dieses Modells lehnt diese Nachrichten ab: {reason}</translation>
    </message>
    <message>
        <source>Edit or delete the messages it names, or start a new chat.</source>
        <translation>Die genannten Nachrichten bearbeiten oder löschen oder einen neuen Chat beginnen.</translation>
    </message>
    <message>
        <source>This model&apos;s chat template was stopped: {reason}.</source>
        <translation>Die Chatvorlage dieses Modells wurde gestoppt: {reason}.</translation>
    </message>
    <message>
        <source>This model&apos;s chat template is broken at line {line}: {reason}</source>
        <translation>Die Chatvorlage dieses Modells ist in Zeile {line} fehlerhaft: {reason}</translation>
    </message>
    <message>
        <source>This model&apos;s chat template failed ({error}).</source>
        <translation>Die Chatvorlage dieses Modells ist fehlgeschlagen ({error}).</translation>
    </message>
    <message>
        <source>The tokenizer of this model reads the plain character {letter} as a control token.</source>
        <translation>Der Tokenizer dieses Modells liest das gewöhnliche Zeichen {letter} als Steuertoken.</translation>
    </message>
    <message>
        <source>A message holds something that is not text.</source>
        <translation>Eine Nachricht enthält etwas, das kein Text ist.</translation>
    </message>
    <message>
        <source>Only text can be sent.</source>
        <translation>Nur Text kann gesendet werden.</translation>
    </message>
    <message>
        <source>A message holds a part of the kind {kind}, but only text can be sent.</source>
        <translation>Eine Nachricht enthält einen Teil der Art {kind}, aber nur Text kann gesendet werden.</translation>
    </message>
    <message>
        <source>The tools are not a JSON list.</source>
        <translation>Die Werkzeuge sind keine JSON-Liste.</translation>
    </message>
    <message>
        <source>Give tools as a JSON list.</source>
        <translation>Werkzeuge als JSON-Liste angeben.</translation>
    </message>
    <message>
        <source>The variables are not a JSON object.</source>
        <translation>Die Variablen sind kein JSON-Objekt.</translation>
    </message>
    <message>
        <source>Give variables as a JSON object.</source>
        <translation>Variablen als JSON-Objekt angeben.</translation>
    </message>
    <message>
        <source>The variable &quot;{name}&quot; is the program&apos;s own.</source>
        <translation>Die Variable „{name}“ ist dem Programm vorbehalten.</translation>
    </message>
    <message>
        <source>Choose another name.</source>
        <translation>Einen anderen Namen wählen.</translation>
    </message>
    <message>
        <source>The tokenizer has {count} special tokens; at most {most} are allowed.</source>
        <translation>Der Tokenizer hat {count} Sondertokens; höchstens {most} sind erlaubt.</translation>
    </message>
    <message>
        <source>The tokenizer has a special token of {count} characters, {token}; at most {most} are allowed.</source>
        <translation>Der Tokenizer hat ein Sondertoken mit {count} Zeichen, {token}; höchstens {most} sind erlaubt.</translation>
    </message>
    <message>
        <source>The model cannot be used: {reason}.</source>
        <translation>Das Modell ist nicht verwendbar: {reason}.</translation>
    </message>
    <message>
        <source>Choose a complete file or folder of this model.</source>
        <translation>Eine vollständige Datei oder einen Ordner dieses Modells wählen.</translation>
    </message>
    <message>
        <source>from source</source>
        <translation>aus Quellcode</translation>
    </message>
    <message>
        <source>{name} (text of the licence)</source>
        <translation>{name} (Lizenztext)</translation>
    </message>
    <message>
        <source>About Decodeck</source>
        <translation>Über Decodeck</translation>
    </message>
    <message>
        <source>Chat with models on this computer. Licensed under Apache-2.0.</source>
        <translation>Mit Modellen auf diesem Computer chatten. Lizenziert unter Apache-2.0.</translation>
    </message>
    <message>
        <source>Licences of what it stands on</source>
        <translation>Lizenzen der Bestandteile</translation>
    </message>
    <message>
        <source>Licence of</source>
        <translation>Lizenz von</translation>
    </message>
    <message>
        <source>Text of the licence</source>
        <translation>Lizenztext</translation>
    </message>
    <message>
        <source>Close</source>
        <translation>Schließen</translation>
    </message>
    <message>
        <source>reading…</source>
        <translation>liest…</translation>
    </message>
    <message numerus="yes">
        <source>%n&#xa0;token(s)</source>
        <translation>
            <numerusform>%n&#xa0;Token</numerusform>
            <numerusform>%n&#xa0;Tokens</numerusform>
        </translation>
    </message>
    <message>
        <source>{name}, {cost}. Press to remove</source>
        <translation>{name}, {cost}. Zum Entfernen klicken</translation>
    </message>
    <message>
        <source>{name}. Press to remove</source>
        <translation>{name}. Zum Entfernen klicken</translation>
    </message>
    <message>
        <source>Remove (Del)</source>
        <translation>Entfernen (Del)</translation>
    </message>
    <message>
        <source>Attached files</source>
        <translation>Angehängte Dateien</translation>
    </message>
    <message numerus="yes">
        <source>%n line(s)</source>
        <translation>
            <numerusform>%n Zeile</numerusform>
            <numerusform>%n Zeilen</numerusform>
        </translation>
    </message>
    <message>
        <source>Attached {name}, expanded</source>
        <translation>Angehängt: {name}, aufgeklappt</translation>
    </message>
    <message>
        <source>Attached {name}, collapsed</source>
        <translation>Angehängt: {name}, zugeklappt</translation>
    </message>
    <message>
        <source>queued</source>
        <translation>wartet</translation>
    </message>
    <message numerus="yes">
        <source>%n more line(s); Copy takes all of them</source>
        <translation>
            <numerusform>%n weitere Zeile; „Kopieren“ erfasst alle</numerusform>
            <numerusform>%n weitere Zeilen; „Kopieren“ erfasst alle</numerusform>
        </translation>
    </message>
    <message>
        <source>Link, {text}, {address}</source>
        <translation>Link, {text}, {address}</translation>
    </message>
    <message>
        <source>Write your first message</source>
        <translation>Erste Nachricht schreiben</translation>
    </message>
    <message>
        <source>Write a message</source>
        <translation>Nachricht schreiben</translation>
    </message>
    <message>
        <source>send when ready</source>
        <translation>senden, wenn bereit</translation>
    </message>
    <message>
        <source>send</source>
        <comment>what a key does</comment>
        <translation>senden</translation>
    </message>
    <message>
        <source>Export chat</source>
        <translation>Chat exportieren</translation>
    </message>
    <message>
        <source>Export chats</source>
        <translation>Chats exportieren</translation>
    </message>
    <message>
        <source>Import chats</source>
        <translation>Chats importieren</translation>
    </message>
    <message>
        <source>Chats (*.json *.jsonl *.zip)</source>
        <translation>Chats (*.json *.jsonl *.zip)</translation>
    </message>
    <message>
        <source>All files (*)</source>
        <translation>Alle Dateien (*)</translation>
    </message>
    <message>
        <source>New folder</source>
        <translation>Neuer Ordner</translation>
    </message>
    <message>
        <source>Unpin</source>
        <translation>Lösen</translation>
    </message>
    <message>
        <source>Pin</source>
        <translation>Anheften</translation>
    </message>
    <message>
        <source>Rename</source>
        <translation>Umbenennen</translation>
    </message>
    <message>
        <source>Move to folder</source>
        <translation>In Ordner verschieben</translation>
    </message>
    <message>
        <source>New folder…</source>
        <translation>Neuer Ordner…</translation>
    </message>
    <message>
        <source>No folder</source>
        <translation>Kein Ordner</translation>
    </message>
    <message>
        <source>Export</source>
        <translation>Exportieren</translation>
    </message>
    <message>
        <source>As Markdown…</source>
        <translation>Als Markdown…</translation>
    </message>
    <message>
        <source>As JSON…</source>
        <translation>Als JSON…</translation>
    </message>
    <message>
        <source>Delete</source>
        <translation>Löschen</translation>
    </message>
    <message>
        <source>Close</source>
        <comment>a folder</comment>
        <translation>Zuklappen</translation>
    </message>
    <message>
        <source>Open</source>
        <comment>a folder</comment>
        <translation>Aufklappen</translation>
    </message>
    <message>
        <source>Delete folder</source>
        <translation>Ordner löschen</translation>
    </message>
    <message>
        <source>{name}, folder, {chats}, open</source>
        <translation>{name}, Ordner, {chats}, aufgeklappt</translation>
    </message>
    <message>
        <source>{name}, folder, {chats}, closed</source>
        <translation>{name}, Ordner, {chats}, zugeklappt</translation>
    </message>
    <message>
        <source>pinned</source>
        <translation>angeheftet</translation>
    </message>
    <message>
        <source>Not stored</source>
        <translation>Nicht gespeichert</translation>
    </message>
    <message>
        <source>not stored</source>
        <translation>nicht gespeichert</translation>
    </message>
    <message>
        <source>An answer is being written</source>
        <translation>Eine Antwort wird geschrieben</translation>
    </message>
    <message>
        <source>an answer is being written</source>
        <translation>eine Antwort wird geschrieben</translation>
    </message>
    <message>
        <source>Chat title</source>
        <translation>Chattitel</translation>
    </message>
    <message>
        <source>Folder name</source>
        <translation>Ordnername</translation>
    </message>
    <message>
        <source>Loading</source>
        <translation>Lädt</translation>
    </message>
    <message>
        <source>Loading {percent}</source>
        <translation>Lädt {percent}</translation>
    </message>
    <message>
        <source>Downloading</source>
        <translation>Lädt herunter</translation>
    </message>
    <message>
        <source>Ready</source>
        <translation>Bereit</translation>
    </message>
    <message>
        <source>Generating</source>
        <translation>Antwortet</translation>
    </message>
    <message>
        <source>Could not load</source>
        <translation>Ladefehler</translation>
    </message>
    <message>
        <source>Loads with the next message</source>
        <translation>Lädt mit nächster Nachricht</translation>
    </message>
    <message>
        <source>No model. Press to choose one</source>
        <translation>Kein Modell. Zum Wählen klicken</translation>
    </message>
    <message>
        <source>Choose a model ({keys})</source>
        <translation>Modell wählen ({keys})</translation>
    </message>
    <message>
        <source>Model {model}, {state}. Press to change</source>
        <translation>Modell {model}, {state}. Zum Ändern klicken</translation>
    </message>
    <message>
        <source>Change the model ({keys}): {model}</source>
        <translation>Modell wechseln ({keys}): {model}</translation>
    </message>
    <message>
        <source>No model</source>
        <translation>Kein Modell</translation>
    </message>
    <message>
        <source>choose one</source>
        <translation>eines wählen</translation>
    </message>
    <message>
        <source>Copied</source>
        <translation>Kopiert</translation>
    </message>
    <message>
        <source>Copy</source>
        <translation>Kopieren</translation>
    </message>
    <message>
        <source>Copy code</source>
        <translation>Code kopieren</translation>
    </message>
    <message numerus="yes">
        <source>{line} … %n more character(s)</source>
        <translation>
            <numerusform>{line} … %n weiteres Zeichen</numerusform>
            <numerusform>{line} … %n weitere Zeichen</numerusform>
        </translation>
    </message>
    <message>
        <source>not now</source>
        <translation>gerade nicht</translation>
    </message>
    <message>
        <source>Commands</source>
        <translation>Befehle</translation>
    </message>
    <message>
        <source>Find a command</source>
        <translation>Befehl suchen</translation>
    </message>
    <message>
        <source>No command has these words.</source>
        <translation>Kein Befehl enthält diese Wörter.</translation>
    </message>
    <message>
        <source>Chat</source>
        <translation>Chat</translation>
    </message>
    <message>
        <source>Message</source>
        <translation>Nachricht</translation>
    </message>
    <message>
        <source>View</source>
        <translation>Ansicht</translation>
    </message>
    <message>
        <source>Send; while an answer is written: queue</source>
        <translation>Senden; während einer Antwort: einreihen</translation>
    </message>
    <message>
        <source>message field</source>
        <translation>Nachrichtenfeld</translation>
    </message>
    <message>
        <source>New line</source>
        <translation>Neue Zeile</translation>
    </message>
    <message>
        <source>Take the queued message back, or edit the last one</source>
        <translation>Eingereihte Nachricht zurückholen oder die letzte bearbeiten</translation>
    </message>
    <message>
        <source>empty message field</source>
        <translation>leeres Nachrichtenfeld</translation>
    </message>
    <message>
        <source>Remove</source>
        <translation>Entfernen</translation>
    </message>
    <message>
        <source>attached file</source>
        <translation>angehängte Datei</translation>
    </message>
    <message>
        <source>Message before; Down the next</source>
        <translation>Vorherige Nachricht; mit ↓ die nächste</translation>
    </message>
    <message>
        <source>chat</source>
        <translation>Chat</translation>
    </message>
    <message>
        <source>Edit the chosen message</source>
        <translation>Ausgewählte Nachricht bearbeiten</translation>
    </message>
    <message>
        <source>Through all that can be pressed in a message</source>
        <translation>Durch alle Bedienelemente einer Nachricht</translation>
    </message>
    <message>
        <source>Delete the chosen chat</source>
        <translation>Ausgewählten Chat löschen</translation>
    </message>
    <message>
        <source>list of chats</source>
        <translation>Chatliste</translation>
    </message>
    <message>
        <source>Apply</source>
        <translation>Anwenden</translation>
    </message>
    <message>
        <source>tuning</source>
        <translation>Tuning</translation>
    </message>
    <message>
        <source>Use recommended settings</source>
        <translation>Empfohlene Einstellungen verwenden</translation>
    </message>
    <message>
        <source>Go to the message field</source>
        <translation>Zum Nachrichtenfeld</translation>
    </message>
    <message>
        <source>Attach files</source>
        <translation>Dateien anhängen</translation>
    </message>
    <message>
        <source>Instructions and sampling</source>
        <translation>Anweisungen und Sampling</translation>
    </message>
    <message>
        <source>Save as a preset</source>
        <translation>Als Vorlage speichern</translation>
    </message>
    <message>
        <source>Import a preset</source>
        <translation>Vorlage importieren</translation>
    </message>
    <message>
        <source>Export as a preset</source>
        <translation>Als Vorlage exportieren</translation>
    </message>
    <message>
        <source>Stop the answer</source>
        <translation>Antwort stoppen</translation>
    </message>
    <message>
        <source>Regenerate the answer</source>
        <translation>Antwort neu erzeugen</translation>
    </message>
    <message>
        <source>Continue the answer</source>
        <translation>Antwort fortsetzen</translation>
    </message>
    <message>
        <source>Edit your last message</source>
        <translation>Letzte eigene Nachricht bearbeiten</translation>
    </message>
    <message>
        <source>Copy the last answer</source>
        <translation>Letzte Antwort kopieren</translation>
    </message>
    <message>
        <source>Copy the last code block</source>
        <translation>Letzten Codeblock kopieren</translation>
    </message>
    <message>
        <source>Previous branch</source>
        <translation>Vorheriger Zweig</translation>
    </message>
    <message>
        <source>Next branch</source>
        <translation>Nächster Zweig</translation>
    </message>
    <message>
        <source>New temporary chat</source>
        <translation>Neuer temporärer Chat</translation>
    </message>
    <message>
        <source>Search chats</source>
        <translation>Chats durchsuchen</translation>
    </message>
    <message>
        <source>Pin or unpin the chat</source>
        <translation>Chat anheften oder lösen</translation>
    </message>
    <message>
        <source>Rename the chat</source>
        <translation>Chat umbenennen</translation>
    </message>
    <message>
        <source>Export the chat as Markdown</source>
        <translation>Chat als Markdown exportieren</translation>
    </message>
    <message>
        <source>Export the chat as JSON</source>
        <translation>Chat als JSON exportieren</translation>
    </message>
    <message>
        <source>Undo the deletion</source>
        <translation>Löschen rückgängig machen</translation>
    </message>
    <message>
        <source>Export all chats</source>
        <translation>Alle Chats exportieren</translation>
    </message>
    <message>
        <source>Choose a model, or open the library</source>
        <translation>Modell wählen oder Bibliothek öffnen</translation>
    </message>
    <message>
        <source>Choose a model file</source>
        <translation>Modelldatei wählen</translation>
    </message>
    <message>
        <source>Choose a model folder</source>
        <translation>Ordner eines Modells wählen</translation>
    </message>
    <message>
        <source>Show the models folder</source>
        <translation>Modellordner anzeigen</translation>
    </message>
    <message>
        <source>Use a longer context</source>
        <translation>Längeren Kontext verwenden</translation>
    </message>
    <message>
        <source>Theme: System</source>
        <translation>Design: System</translation>
    </message>
    <message>
        <source>Theme: Light</source>
        <translation>Design: Hell</translation>
    </message>
    <message>
        <source>Theme: Dark</source>
        <translation>Design: Dunkel</translation>
    </message>
    <message>
        <source>Show or hide the sidebar</source>
        <translation>Seitenleiste ein-/ausblenden</translation>
    </message>
    <message>
        <source>Show or hide Tuning</source>
        <translation>Tuning ein-/ausblenden</translation>
    </message>
    <message>
        <source>Batch lab</source>
        <translation>Batch-Labor</translation>
    </message>
    <message>
        <source>All commands</source>
        <translation>Alle Befehle</translation>
    </message>
    <message>
        <source>Keyboard shortcuts</source>
        <translation>Tastenkürzel</translation>
    </message>
    <message>
        <source>Next part of the window</source>
        <translation>Nächster Bereich</translation>
    </message>
    <message>
        <source>Part before</source>
        <translation>Vorheriger Bereich</translation>
    </message>
    <message>
        <source>Close what is open, then stop the answer</source>
        <translation>Offenes schließen, dann die Antwort stoppen</translation>
    </message>
    <message>
        <source>Quit</source>
        <translation>Beenden</translation>
    </message>
    <message>
        <source>Drop a GGUF file, model folder or text file anywhere</source>
        <translation>GGUF-Datei, Modellordner oder Textdatei ins Fenster ziehen</translation>
    </message>
    <message>
        <source>Attach files (Ctrl+U)</source>
        <translation>Dateien anhängen (Strg+U)</translation>
    </message>
    <message numerus="yes">
        <source>%n token(s) too long. Shorten it or raise the context length.</source>
        <translation>
            <numerusform>%n Token zu lang. Nachricht kürzen oder Kontextlänge erhöhen.</numerusform>
            <numerusform>%n Tokens zu lang. Nachricht kürzen oder Kontextlänge erhöhen.</numerusform>
        </translation>
    </message>
    <message>
        <source>queue</source>
        <comment>what a key does</comment>
        <translation>einreihen</translation>
    </message>
    <message>
        <source>Enter</source>
        <comment>a key</comment>
        <translation>Enter</translation>
    </message>
    <message>
        <source>Shift Enter</source>
        <translation>Umschalt Enter</translation>
    </message>
    <message>
        <source>new line</source>
        <comment>what a key does</comment>
        <translation>neue Zeile</translation>
    </message>
    <message>
        <source>Esc</source>
        <translation>Esc</translation>
    </message>
    <message>
        <source>stop</source>
        <comment>what a key does</comment>
        <translation>stoppen</translation>
    </message>
    <message>
        <source>Name of the preset</source>
        <translation>Name der Vorlage</translation>
    </message>
    <message>
        <source>Presets (*.json)</source>
        <translation>Vorlagen (*.json)</translation>
    </message>
    <message>
        <source>Text, code and PDF ({endings})</source>
        <translation>Text, Code und PDF ({endings})</translation>
    </message>
    <message numerus="yes">
        <source>about %n second(s)</source>
        <translation>
            <numerusform>etwa %n Sekunde</numerusform>
            <numerusform>etwa %n Sekunden</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>about %n minute(s)</source>
        <translation>
            <numerusform>etwa %n Minute</numerusform>
            <numerusform>etwa %n Minuten</numerusform>
        </translation>
    </message>
    <message>
        <source>any length</source>
        <translation>beliebig lang</translation>
    </message>
    <message>
        <source>Longest answer {length}</source>
        <translation>Längste Antwort: {length}</translation>
    </message>
    <message>
        <source>How long the answer may become</source>
        <translation>Wie lang die Antwort werden darf</translation>
    </message>
    <message>
        <source>Longest answer {length}, {time}</source>
        <translation>Längste Antwort: {length}, {time}</translation>
    </message>
    <message>
        <source>How long the answer may become, and the time at the predicted speed</source>
        <translation>Wie lang die Antwort werden darf, und die Dauer beim erwarteten Tempo</translation>
    </message>
    <message>
        <source>Send</source>
        <translation>Senden</translation>
    </message>
    <message>
        <source>Stop (Esc)</source>
        <translation>Stoppen (Esc)</translation>
    </message>
    <message>
        <source>Send (Enter)</source>
        <translation>Senden (Enter)</translation>
    </message>
    <message>
        <source>{used} of {context} tokens</source>
        <translation>{used} von {context} Tokens</translation>
    </message>
    <message>
        <source>{used} of {context} tokens of the context, with what you typed</source>
        <translation>{used} von {context} Tokens des Kontexts, Eingabe mitgezählt</translation>
    </message>
    <message>
        <source>Tokens that the model holds in memory now (KV cache)</source>
        <translation>Tokens, die das Modell gerade im Speicher hält (KV-Cache)</translation>
    </message>
    <message>
        <source>Context in use</source>
        <translation>Belegter Kontext</translation>
    </message>
    <message>
        <source>No model loaded</source>
        <translation>Kein Modell geladen</translation>
    </message>
    <message>
        <source>{context}: {answers}, and {kept} kept of other chats</source>
        <translation>{context}: {answers}, dazu {kept} von anderen Chats</translation>
    </message>
    <message>
        <source>Context length</source>
        <translation>Kontextlänge</translation>
    </message>
    <message>
        <source>How many tokens one chat can hold. Left and Right, or type a number</source>
        <translation>Wie viele Tokens ein Chat fasst. Pfeil links/rechts oder eine Zahl eingeben</translation>
    </message>
    <message>
        <source>{count} tokens, {fit}</source>
        <translation>{count} Tokens, {fit}</translation>
    </message>
    <message>
        <source>loaded {context}</source>
        <translation>geladen {context}</translation>
    </message>
    <message>
        <source>{context} trained</source>
        <translation>{context} trainiert</translation>
    </message>
    <message>
        <source>Measured speed of the answer, in tokens per second (decode speed)</source>
        <translation>Gemessenes Tempo der Antwort in Tokens pro Sekunde (Decodiertempo)</translation>
    </message>
    <message>
        <source>Speed not measured yet</source>
        <translation>Tempo noch nicht gemessen</translation>
    </message>
    <message>
        <source>Too few tokens to measure a speed</source>
        <translation>Zu wenige Tokens, um ein Tempo zu messen</translation>
    </message>
    <message>
        <source>{speed} tokens per second in the last answer</source>
        <translation>{speed} Tokens pro Sekunde in der letzten Antwort</translation>
    </message>
    <message>
        <source>{speed} tokens per second now</source>
        <translation>jetzt {speed} Tokens pro Sekunde</translation>
    </message>
    <message>
        <source>slower than predicted</source>
        <translation>langsamer als erwartet</translation>
    </message>
    <message>
        <source>predicted {speed}</source>
        <translation>erwartet {speed}</translation>
    </message>
    <message>
        <source>bandwidth limit {speed}</source>
        <translation>Bandbreitenlimit {speed}</translation>
    </message>
    <message>
        <source>{speeds}; people read about {low} to {high}</source>
        <translation>{speeds}; Menschen lesen etwa {low} bis {high}</translation>
    </message>
    <message>
        <source>waiting</source>
        <translation>wartet</translation>
    </message>
    <message>
        <source>Drop to load {name}</source>
        <translation>Loslassen, um {name} zu laden</translation>
    </message>
    <message>
        <source>Left out: {names}</source>
        <translation>Ausgelassen: {names}</translation>
    </message>
    <message>
        <source>One model at a time: {names} is left out</source>
        <translation>Immer nur ein Modell, ausgelassen: {names}</translation>
    </message>
    <message>
        <source>Not a model, left out: {names}</source>
        <translation>Kein Modell, ausgelassen: {names}</translation>
    </message>
    <message>
        <source>The file stays where it is</source>
        <translation>Die Datei bleibt, wo sie ist</translation>
    </message>
    <message>
        <source>Text goes into this message</source>
        <translation>Text kommt in diese Nachricht</translation>
    </message>
    <message numerus="yes">
        <source>Drop to add 1 model and %n text file(s)</source>
        <translation>
            <numerusform>Loslassen, um 1 Modell und %n Textdatei hinzuzufügen</numerusform>
            <numerusform>Loslassen, um 1 Modell und %n Textdateien hinzuzufügen</numerusform>
        </translation>
    </message>
    <message>
        <source>The model is loaded, text goes into this message</source>
        <translation>Das Modell wird geladen, Text kommt in diese Nachricht</translation>
    </message>
    <message>
        <source>Drop to attach {name}</source>
        <translation>Loslassen, um {name} anzuhängen</translation>
    </message>
    <message numerus="yes">
        <source>Drop to attach %n text file(s)</source>
        <translation>
            <numerusform>Loslassen, um %n Textdatei anzuhängen</numerusform>
            <numerusform>Loslassen, um %n Textdateien anzuhängen</numerusform>
        </translation>
    </message>
    <message>
        <source>{names}. Text, code, CSV and PDF files can be attached.</source>
        <translation>{names}. Anhängen lassen sich Text-, Code-, CSV- und PDF-Dateien.</translation>
    </message>
    <message>
        <source>Left out</source>
        <translation>Ausgelassen</translation>
    </message>
    <message>
        <source>These files cannot be used</source>
        <translation>Diese Dateien sind nicht verwendbar</translation>
    </message>
    <message>
        <source>{names} are neither models nor text. Drop a GGUF file, a model folder or a text file.</source>
        <translation>{names} sind weder Modelle noch Text. Eine GGUF-Datei, einen Modellordner oder eine Textdatei ins Fenster ziehen.</translation>
    </message>
    <message>
        <source>This file cannot be used</source>
        <translation>Diese Datei ist nicht verwendbar</translation>
    </message>
    <message>
        <source>{names} is neither a model nor text. Drop a GGUF file, a model folder or a text file.</source>
        <translation>{names} ist weder Modell noch Text. Eine GGUF-Datei, einen Modellordner oder eine Textdatei ins Fenster ziehen.</translation>
    </message>
    <message>
        <source>{names}. One model is loaded at a time.</source>
        <translation>{names}. Es wird immer nur ein Modell geladen.</translation>
    </message>
    <message>
        <source>{names} and {count} more</source>
        <translation>{names} und {count} weitere</translation>
    </message>
    <message>
        <source>Editing your message: it is asked anew, the old one stays beside it</source>
        <translation>Nachricht bearbeiten: Sie wird neu gesendet, die alte bleibt als Zweig erhalten</translation>
    </message>
    <message>
        <source>Editing the answer: the old one stays beside it</source>
        <translation>Antwort bearbeiten: Die alte bleibt als Zweig erhalten</translation>
    </message>
    <message>
        <source>Temporary chat: nothing of it is stored, it ends with the program</source>
        <translation>Temporärer Chat: wird nicht gespeichert und endet mit dem Programm</translation>
    </message>
    <message>
        <source>About this message</source>
        <translation>Zu dieser Nachricht</translation>
    </message>
    <message>
        <source>Leave the message as it is (Esc)</source>
        <translation>Nachricht unverändert lassen (Esc)</translation>
    </message>
    <message>
        <source>tok/s now</source>
        <translation>tok/s jetzt</translation>
    </message>
    <message>
        <source>full context</source>
        <translation>Kontext voll</translation>
    </message>
    <message>
        <source>Read a step</source>
        <translation>Lesen/Schritt</translation>
    </message>
    <message>
        <source>Chats at once</source>
        <translation>Chats zugleich</translation>
    </message>
    <message>
        <source>Each</source>
        <translation>Je Chat</translation>
    </message>
    <message>
        <source>Guessed in a step</source>
        <translation>Geraten je Schritt</translation>
    </message>
    <message>
        <source>Tokens a step</source>
        <translation>Tokens je Schritt</translation>
    </message>
    <message>
        <source>When</source>
        <translation>Wann</translation>
    </message>
    <message>
        <source>Tokens</source>
        <translation>Tokens</translation>
    </message>
    <message>
        <source>Predicted</source>
        <translation>Erwartet</translation>
    </message>
    <message>
        <source>Measured</source>
        <translation>Gemessen</translation>
    </message>
    <message>
        <source>Why this speed</source>
        <translation>Warum dieses Tempo</translation>
    </message>
    <message>
        <source>Without what makes it quick</source>
        <translation>Ohne das, was es schnell macht</translation>
    </message>
    <message>
        <source>Several chats at once</source>
        <translation>Mehrere Chats zugleich</translation>
    </message>
    <message>
        <source>Drafts</source>
        <translation>Entwürfe</translation>
    </message>
    <message>
        <source>Predicted and measured</source>
        <translation>Erwartet und gemessen</translation>
    </message>
    <message>
        <source>Close (Esc)</source>
        <translation>Schließen (Esc)</translation>
    </message>
    <message>
        <source>One step, {time}&#xa0;ms predicted</source>
        <translation>Ein Schritt, {time}&#xa0;ms erwartet</translation>
    </message>
    <message>
        <source>does not fit</source>
        <translation>passt nicht</translation>
    </message>
    <message>
        <source>{size} with a full context</source>
        <translation>{size} bei vollem Kontext</translation>
    </message>
    <message>
        <source>{times}× faster</source>
        <translation>{times}× Tempo</translation>
    </message>
    <message>
        <source>no slower</source>
        <translation>gleich lang</translation>
    </message>
    <message>
        <source>{times}× slower</source>
        <translation>{times}× so lang</translation>
    </message>
    <message>
        <source>about {times}× slower</source>
        <translation>≈ {times}× so lang</translation>
    </message>
    <message>
        <source>none</source>
        <comment>tokens guessed</comment>
        <translation>keine</translation>
    </message>
    <message>
        <source>Download</source>
        <translation>Download</translation>
    </message>
    <message>
        <source>Resume</source>
        <translation>Fortsetzen</translation>
    </message>
    <message>
        <source>Try again</source>
        <translation>Erneut versuchen</translation>
    </message>
    <message>
        <source>Use it</source>
        <translation>Verwenden</translation>
    </message>
    <message>
        <source>Starting…</source>
        <translation>Startet…</translation>
    </message>
    <message>
        <source>Checking the file…</source>
        <translation>Datei wird geprüft…</translation>
    </message>
    <message>
        <source>Downloaded. Loading the model…</source>
        <translation>Heruntergeladen. Modell wird geladen…</translation>
    </message>
    <message>
        <source>It is on this computer already.</source>
        <translation>Es ist schon auf diesem Computer.</translation>
    </message>
    <message>
        <source>Paused at {done} of {total}</source>
        <translation>Pausiert bei {done} von {total}</translation>
    </message>
    <message>
        <source>{done} of {total} · {percent}</source>
        <translation>{done} von {total} · {percent}</translation>
    </message>
    <message>
        <source>This computer</source>
        <translation>Dieser Computer</translation>
    </message>
    <message>
        <source>Looking at it…</source>
        <translation>Wird ermittelt…</translation>
    </message>
    <message>
        <source>Starter model</source>
        <translation>Startmodell</translation>
    </message>
    <message>
        <source>Cancel the download</source>
        <translation>Download abbrechen</translation>
    </message>
    <message>
        <source>Download of the starter model</source>
        <translation>Download des Startmodells</translation>
    </message>
    <message>
        <source>Small and quick, good for a first try. You can write already: the message is sent when the model is ready.</source>
        <translation>Klein und schnell, gut für einen ersten Versuch. Schreiben geht schon jetzt: Die Nachricht wird gesendet, sobald das Modell bereit ist.</translation>
    </message>
    <message>
        <source>Starter model: {name}</source>
        <translation>Startmodell: {name}</translation>
    </message>
    <message>
        <source>or press Enter</source>
        <translation>oder Enter drücken</translation>
    </message>
    <message>
        <source>Welcome</source>
        <translation>Willkommen</translation>
    </message>
    <message>
        <source>Welcome to Decodeck</source>
        <translation>Willkommen bei Decodeck</translation>
    </message>
    <message>
        <source>Chat with models that run on this computer, and see how fast they are.</source>
        <translation>Mit Modellen chatten, die auf diesem Computer laufen, und sehen, wie schnell sie sind.</translation>
    </message>
    <message>
        <source>choose a file</source>
        <translation>eine Datei wählen</translation>
    </message>
    <message>
        <source>Choose a GGUF file</source>
        <translation>GGUF-Datei wählen</translation>
    </message>
    <message>
        <source>a folder</source>
        <comment>choose a file or a folder</comment>
        <translation>einen Ordner</translation>
    </message>
    <message>
        <source>Already have models? Drop one here, or</source>
        <translation>Schon Modelle da? Eines hierher ziehen oder</translation>
    </message>
    <message>
        <source>or</source>
        <comment>choose a file or a folder</comment>
        <translation>oder</translation>
    </message>
    <message>
        <source>fits</source>
        <translation>passt</translation>
    </message>
    <message>
        <source>fits tightly</source>
        <translation>passt knapp</translation>
    </message>
    <message>
        <source>spills</source>
        <translation>lagert aus</translation>
    </message>
    <message>
        <source>tight</source>
        <translation>knapp</translation>
    </message>
    <message>
        <source>no fit</source>
        <translation>zu groß</translation>
    </message>
    <message>
        <source>tok/s, context half full</source>
        <translation>tok/s, Kontext halb voll</translation>
    </message>
    <message>
        <source>Fit and speed by precision and context</source>
        <translation>Platz und Tempo nach Präzision und Kontext</translation>
    </message>
    <message>
        <source>{speed} tok/s</source>
        <translation>{speed} tok/s</translation>
    </message>
    <message>
        <source>Text</source>
        <translation>Text</translation>
    </message>
    <message>
        <source>Jump to latest</source>
        <translation>Zum Neuesten</translation>
    </message>
    <message>
        <source>Jump to latest (End)</source>
        <translation>Zum Neuesten (End)</translation>
    </message>
    <message>
        <source>What this says</source>
        <translation>Was das zeigt</translation>
    </message>
    <message>
        <source>This run</source>
        <translation>Dieser Lauf</translation>
    </message>
    <message>
        <source>Cost</source>
        <translation>Kosten</translation>
    </message>
    <message>
        <source>per million tokens</source>
        <translation>je Million Tokens</translation>
    </message>
    <message>
        <source>Energy, read · written</source>
        <translation>Energie: Lesen · Schreiben</translation>
    </message>
    <message>
        <source>Tokens read</source>
        <translation>Tokens gelesen</translation>
    </message>
    <message>
        <source>Tokens written</source>
        <translation>Tokens geschrieben</translation>
    </message>
    <message>
        <source>Chart of speeds</source>
        <translation>Tempodiagramm</translation>
    </message>
    <message>
        <source>Predicted only, nothing is measured yet</source>
        <translation>Nur erwartete Werte, noch nichts gemessen</translation>
    </message>
    <message>
        <source>Nothing to show</source>
        <translation>Nichts anzuzeigen</translation>
    </message>
    <message>
        <source>memory-bound</source>
        <translation>speicherbegrenzt</translation>
    </message>
    <message>
        <source>compute-bound</source>
        <translation>rechenbegrenzt</translation>
    </message>
    <message>
        <source>predicted ±{band}</source>
        <translation>erwartet ±{band}</translation>
    </message>
    <message>
        <source>measured</source>
        <translation>gemessen</translation>
    </message>
    <message>
        <source>Export the table</source>
        <translation>Tabelle exportieren</translation>
    </message>
    <message>
        <source>Export the chart</source>
        <translation>Diagramm exportieren</translation>
    </message>
    <message>
        <source>Tables (*.csv)</source>
        <translation>Tabellen (*.csv)</translation>
    </message>
    <message>
        <source>Pictures (*.png)</source>
        <translation>Bilder (*.png)</translation>
    </message>
    <message>
        <source>Speed against</source>
        <translation>Tempo nach</translation>
    </message>
    <message>
        <source>Predicted against measured</source>
        <translation>Erwartet gegen gemessen</translation>
    </message>
    <message>
        <source>tok/s, log scale</source>
        <translation>tok/s, logarithmisch</translation>
    </message>
    <message>
        <source>No model is loaded. Choose one to see what it should reach.</source>
        <translation>Kein Modell geladen. Eines wählen, um das erwartete Tempo zu sehen.</translation>
    </message>
    <message>
        <source>Export CSV</source>
        <translation>CSV-Export</translation>
    </message>
    <message>
        <source>Save the table as a file for spreadsheets</source>
        <translation>Tabelle als Datei für Tabellenprogramme speichern</translation>
    </message>
    <message>
        <source>Export PNG</source>
        <translation>PNG-Export</translation>
    </message>
    <message>
        <source>Save the chart as a picture</source>
        <translation>Diagramm als Bild speichern</translation>
    </message>
    <message>
        <source>End the run; what was measured is kept</source>
        <translation>Lauf beenden; Gemessenes bleibt erhalten</translation>
    </message>
    <message>
        <source>Progress of the measurement</source>
        <translation>Fortschritt der Messung</translation>
    </message>
    <message>
        <source>failed</source>
        <translation>Fehler</translation>
    </message>
    <message>
        <source>Latency per token</source>
        <translation>Latenz je Token</translation>
    </message>
    <message>
        <source>Time of each decode step. Band: the middle half. Amber: off the scale</source>
        <translation>Dauer jedes Decodierschritts. Band: die mittlere Hälfte. Orange: außerhalb der Skala</translation>
    </message>
    <message>
        <source>Starts with the next answer</source>
        <translation>Beginnt mit der nächsten Antwort</translation>
    </message>
    <message>
        <source>Median {median} milliseconds, slowest {slowest} milliseconds</source>
        <translation>Median {median} Millisekunden, langsamster Schritt {slowest} Millisekunden</translation>
    </message>
    <message>
        <source>starts with the next answer</source>
        <translation>beginnt mit der nächsten Antwort</translation>
    </message>
    <message>
        <source>median {median} · slowest {slowest}&#xa0;ms</source>
        <translation>Median {median} · Maximum {slowest}&#xa0;ms</translation>
    </message>
    <message>
        <source>({upper} choose {lower})</source>
        <translation>({upper} über {lower})</translation>
    </message>
    <message>
        <source>{layers} of {total}</source>
        <translation>{layers} von {total}</translation>
    </message>
    <message>
        <source>GPU layers {layers} of {total}</source>
        <translation>GPU-Schichten: {layers} von {total}</translation>
    </message>
    <message>
        <source>Layers; the others stay on the processor. Left and Right</source>
        <translation>Schichten; die übrigen bleiben auf dem Prozessor. Pfeil links/rechts</translation>
    </message>
    <message>
        <source>Layers on {gpu}; the others stay on the processor. Left and Right</source>
        <translation>Schichten auf {gpu}; die übrigen bleiben auf dem Prozessor. Pfeil links/rechts</translation>
    </message>
    <message>
        <source>Predicted: for the chat as long as it is now. Bandwidth limit: the bytes cannot be read quicker</source>
        <translation>Erwartet: für den Chat in seiner jetzigen Länge. Bandbreitenlimit: Schneller lassen sich die Bytes nicht lesen</translation>
    </message>
    <message>
        <source>Marks of the dial</source>
        <translation>Marken der Tempoanzeige</translation>
    </message>
    <message>
        <source>Reading: people read {speed} tokens of this a second</source>
        <translation>Lesen: Menschen lesen davon {speed} Tokens pro Sekunde</translation>
    </message>
    <message>
        <source>people read about {speed} tokens per second</source>
        <translation>Menschen lesen etwa {speed} Tokens pro Sekunde</translation>
    </message>
    <message>
        <source>limit</source>
        <translation>Limit</translation>
    </message>
    <message>
        <source>bandwidth limit</source>
        <translation>Bandbreitenlimit</translation>
    </message>
    <message>
        <source>reading</source>
        <comment>how fast people read</comment>
        <translation>Lesen</translation>
    </message>
    <message>
        <source>Model library</source>
        <translation>Modellbibliothek</translation>
    </message>
    <message>
        <source>Part of the library</source>
        <translation>Bereich der Bibliothek</translation>
    </message>
    <message>
        <source>Add a folder</source>
        <translation>Ordner hinzufügen</translation>
    </message>
    <message>
        <source>Back to the chat ({keys})</source>
        <translation>Zurück zum Chat ({keys})</translation>
    </message>
    <message>
        <source>{name} was deleted.</source>
        <translation>{name} wurde gelöscht.</translation>
    </message>
    <message>
        <source>Add a folder with models</source>
        <translation>Ordner mit Modellen hinzufügen</translation>
    </message>
    <message>
        <source>Put the deleted model back</source>
        <translation>Gelöschtes Modell wiederherstellen</translation>
    </message>
    <message>
        <source>On this computer</source>
        <translation>Auf diesem Computer</translation>
    </message>
    <message>
        <source>Find models</source>
        <translation>Modelle finden</translation>
    </message>
    <message>
        <source>Files</source>
        <translation>Dateien</translation>
    </message>
    <message>
        <source>Show this model&apos;s files (Enter)</source>
        <translation>Dateien dieses Modells anzeigen (Enter)</translation>
    </message>
    <message>
        <source>Use</source>
        <translation>Nutzen</translation>
    </message>
    <message>
        <source>Load this model</source>
        <translation>Dieses Modell laden</translation>
    </message>
    <message>
        <source>Open the model page</source>
        <translation>Modellseite öffnen</translation>
    </message>
    <message>
        <source>Its licence has to be accepted first.</source>
        <translation>Zuerst muss die Lizenz akzeptiert werden.</translation>
    </message>
    <message>
        <source>Paste an access token</source>
        <translation>Zugangstoken einfügen</translation>
    </message>
    <message>
        <source>Save token</source>
        <translation>Token speichern</translation>
    </message>
    <message>
        <source>A model&apos;s name, or owner/name</source>
        <translation>Modellname oder Besitzer/Name</translation>
    </message>
    <message>
        <source>Search for models</source>
        <translation>Nach Modellen suchen</translation>
    </message>
    <message>
        <source>Kind of files</source>
        <translation>Art der Dateien</translation>
    </message>
    <message>
        <source>Search</source>
        <translation>Suchen</translation>
    </message>
    <message>
        <source>Models found</source>
        <translation>Gefundene Modelle</translation>
    </message>
    <message>
        <source>Files of the model</source>
        <translation>Dateien des Modells</translation>
    </message>
    <message>
        <source>Back to what was found</source>
        <translation>Zurück zu den Treffern</translation>
    </message>
    <message>
        <source>Asking {host}…</source>
        <translation>Anfrage an {host}…</translation>
    </message>
    <message>
        <source>Nothing on {host} matches &quot;{words}&quot;.</source>
        <translation>Nichts auf {host} passt zu „{words}“.</translation>
    </message>
    <message>
        <source>Search {host} for models. Nothing is asked before you search, and only model files come from there; chats stay on this computer.</source>
        <translation>Auf {host} nach Modellen suchen. Vor einer Suche wird nichts abgefragt, und von dort kommen nur Modelldateien; Chats bleiben auf diesem Computer.</translation>
    </message>
    <message>
        <source>Load this model (Enter)</source>
        <translation>Dieses Modell laden (Enter)</translation>
    </message>
    <message>
        <source>Show in folder</source>
        <translation>Im Ordner anzeigen</translation>
    </message>
    <message>
        <source>Copy the path</source>
        <translation>Pfad kopieren</translation>
    </message>
    <message>
        <source>Take its folder out of the library</source>
        <translation>Ordner aus der Bibliothek nehmen</translation>
    </message>
    <message>
        <source>It can be put back until the program closes</source>
        <translation>Lässt sich wiederherstellen, bis das Programm beendet wird</translation>
    </message>
    <message>
        <source>Loaded</source>
        <translation>Geladen</translation>
    </message>
    <message>
        <source>Filter by name, architecture or program</source>
        <translation>Nach Name, Architektur oder Programm filtern</translation>
    </message>
    <message>
        <source>Filter the models</source>
        <translation>Modelle filtern</translation>
    </message>
    <message>
        <source>Models on this computer</source>
        <translation>Modelle auf diesem Computer</translation>
    </message>
    <message>
        <source>No model here matches &quot;{words}&quot;.</source>
        <translation>Kein Modell hier passt zu „{words}“.</translation>
    </message>
    <message>
        <source>Models of Hugging Face, LM Studio, Jan, GPT4All, llama.cpp and Ollama are listed here where they are, without a copy. Drop a GGUF file anywhere in the window, add a folder, or find one.</source>
        <translation>Modelle von Hugging Face, LM Studio, Jan, GPT4All, llama.cpp und Ollama erscheinen hier, ohne kopiert zu werden. Eine GGUF-Datei ins Fenster ziehen, einen Ordner hinzufügen oder ein Modell suchen.</translation>
    </message>
    <message>
        <source>No models on this computer yet</source>
        <translation>Noch keine Modelle auf diesem Computer</translation>
    </message>
    <message>
        <source>Find a model</source>
        <translation>Modell finden</translation>
    </message>
    <message>
        <source>Pause</source>
        <translation>Pausieren</translation>
    </message>
    <message>
        <source>Download of {name}</source>
        <translation>Download von {name}</translation>
    </message>
    <message>
        <source>Waiting for the other downloads</source>
        <translation>Wartet auf die anderen Downloads</translation>
    </message>
    <message>
        <source>Cancel: {name}</source>
        <translation>Abbrechen: {name}</translation>
    </message>
    <message>
        <source>Delete the {size} that are here?</source>
        <translation>Die vorhandenen {size} löschen?</translation>
    </message>
    <message>
        <source>Keep</source>
        <translation>Behalten</translation>
    </message>
    <message>
        <source>Downloads</source>
        <translation>Downloads</translation>
    </message>
    <message>
        <source>Try again: {name}</source>
        <translation>Erneut versuchen: {name}</translation>
    </message>
    <message>
        <source>Resume: {name}</source>
        <translation>Fortsetzen: {name}</translation>
    </message>
    <message>
        <source>Pause: {name}</source>
        <translation>Pausieren: {name}</translation>
    </message>
    <message>
        <source>Open link</source>
        <translation>Link öffnen</translation>
    </message>
    <message>
        <source>Open this address in the browser?</source>
        <translation>Diese Adresse im Browser öffnen?</translation>
    </message>
    <message>
        <source>Write a mail to this address?</source>
        <translation>E-Mail an diese Adresse schreiben?</translation>
    </message>
    <message>
        <source>It goes to {site}.</source>
        <translation>Ziel: {site}.</translation>
    </message>
    <message>
        <source>The address names no site.</source>
        <translation>Die Adresse nennt kein Ziel.</translation>
    </message>
    <message>
        <source>Address</source>
        <translation>Adresse</translation>
    </message>
    <message>
        <source>Copy address</source>
        <translation>Adresse kopieren</translation>
    </message>
    <message>
        <source>Write</source>
        <comment>a mail</comment>
        <translation>Schreiben</translation>
    </message>
    <message>
        <source>Open</source>
        <comment>a link</comment>
        <translation>Öffnen</translation>
    </message>
    <message>
        <source>This model&apos;s context ends at {tokens} tokens.</source>
        <translation>Der Kontext dieses Modells endet bei {tokens} Token.</translation>
    </message>
    <message>
        <source>No longer context fits with room to spare.</source>
        <translation>Ein längerer Kontext passt nicht mit genügend Reserve.</translation>
    </message>
    <message>
        <source>Choose a smaller precision in Tuning, or start a new chat.</source>
        <translation>Im Tuning eine geringere Präzision wählen oder einen neuen Chat beginnen.</translation>
    </message>
    <message>
        <source>Choose another model, or start a new chat.</source>
        <translation>Ein anderes Modell wählen oder einen neuen Chat beginnen.</translation>
    </message>
    <message>
        <source>Models (*.gguf *.safetensors config.json);;All files (*)</source>
        <translation>Modelle (*.gguf *.safetensors config.json);;Alle Dateien (*)</translation>
    </message>
    <message>
        <source>{words} (image, not loaded: {address})</source>
        <translation>{words} (Bild, nicht geladen: {address})</translation>
    </message>
    <message>
        <source>Continue</source>
        <translation>Fortsetzen</translation>
    </message>
    <message>
        <source>Make room</source>
        <translation>Platz schaffen</translation>
    </message>
    <message>
        <source>What fills the memory. KV is the memory of the chats (KV cache)</source>
        <translation>Was den Speicher belegt. KV ist der Speicher der Chats (KV-Cache)</translation>
    </message>
    <message>
        <source>KV used</source>
        <translation>KV belegt</translation>
    </message>
    <message>
        <source>KV reserved</source>
        <translation>KV reserviert</translation>
    </message>
    <message>
        <source>Working</source>
        <translation>Puffer</translation>
    </message>
    <message>
        <source>Other apps</source>
        <translation>Andere Apps</translation>
    </message>
    <message>
        <source>Free</source>
        <translation>Frei</translation>
    </message>
    <message>
        <source>What fills the memory. KV is the memory of the chats (KV cache); {size}&#xa0;MB of it are gaps in its pages</source>
        <translation>Was den Speicher belegt. KV ist der Speicher der Chats (KV-Cache); {size}&#xa0;MB davon sind Lücken in seinen Seiten</translation>
    </message>
    <message>
        <source>Memory, {label}</source>
        <translation>Speicher, {label}</translation>
    </message>
    <message>
        <source>Memory not known yet</source>
        <translation>Speicher noch nicht bekannt</translation>
    </message>
    <message>
        <source>{size} more after Apply</source>
        <translation>{size} mehr nach dem Anwenden</translation>
    </message>
    <message>
        <source>{size} more when loaded</source>
        <translation>{size} mehr nach dem Laden</translation>
    </message>
    <message>
        <source>{label}: {used} of {total} gigabytes. {parts}</source>
        <translation>{label}: {used} von {total} Gigabyte. {parts}</translation>
    </message>
    <message>
        <source>{used} of {total}&#xa0;GB</source>
        <translation>{used} von {total}&#xa0;GB</translation>
    </message>
    <message>
        <source>+{size} after Apply</source>
        <translation>+{size} nach Anwenden</translation>
    </message>
    <message>
        <source>+{size} when loaded</source>
        <translation>+{size} nach Laden</translation>
    </message>
    <message>
        <source>Reading your message…</source>
        <translation>Nachricht wird eingelesen…</translation>
    </message>
    <message>
        <source>Reading the chat…</source>
        <translation>Chat wird eingelesen…</translation>
    </message>
    <message>
        <source>Could not finish. The answer so far is kept.</source>
        <translation>Nicht fertig geworden. Die bisherige Antwort bleibt erhalten.</translation>
    </message>
    <message>
        <source>No answer was written.</source>
        <translation>Es wurde keine Antwort geschrieben.</translation>
    </message>
    <message>
        <source>Longest answer length reached</source>
        <translation>Maximale Antwortlänge erreicht</translation>
    </message>
    <message>
        <source>Context full: the answer ends here</source>
        <translation>Kontext voll: Die Antwort endet hier</translation>
    </message>
    <message>
        <source>The model ended its answer after thinking, without writing one</source>
        <translation>Das Modell hat nach dem Nachdenken aufgehört, ohne eine Antwort zu schreiben</translation>
    </message>
    <message>
        <source>The model ended its answer without writing anything</source>
        <translation>Das Modell hat aufgehört, ohne etwas zu schreiben</translation>
    </message>
    <message>
        <source>Stopped by you</source>
        <translation>Von Ihnen gestoppt</translation>
    </message>
    <message numerus="yes">
        <source>Stopped by you after %n token(s)</source>
        <translation>
            <numerusform>Von Ihnen nach %n Token gestoppt</numerusform>
            <numerusform>Von Ihnen nach %n Tokens gestoppt</numerusform>
        </translation>
    </message>
    <message>
        <source>Edit</source>
        <translation>Bearbeiten</translation>
    </message>
    <message>
        <source>Regenerate</source>
        <translation>Neu erzeugen</translation>
    </message>
    <message>
        <source>Branch before</source>
        <translation>Vorheriger Zweig</translation>
    </message>
    <message>
        <source>Branch {place} of {count}</source>
        <translation>Zweig {place} von {count}</translation>
    </message>
    <message>
        <source>not known yet</source>
        <translation>noch nicht bekannt</translation>
    </message>
    <message>
        <source>Pages</source>
        <translation>Seiten</translation>
    </message>
    <message>
        <source>Notice</source>
        <translation>Hinweis</translation>
    </message>
    <message>
        <source>Close this notice</source>
        <translation>Diesen Hinweis schließen</translation>
    </message>
    <message numerus="yes">
        <source>%n more</source>
        <comment>notices</comment>
        <translation>
            <numerusform>%n weiterer</numerusform>
            <numerusform>%n weitere</numerusform>
        </translation>
    </message>
    <message>
        <source>Details</source>
        <translation>Details</translation>
    </message>
    <message>
        <source>Copy details</source>
        <translation>Details kopieren</translation>
    </message>
    <message>
        <source>{seconds}&#xa0;s left</source>
        <translation>noch {seconds}&#xa0;s</translation>
    </message>
    <message>
        <source>{minutes}&#xa0;min left</source>
        <translation>noch {minutes}&#xa0;min</translation>
    </message>
    <message>
        <source>{repo} on huggingface.co. Its size and licence are looked up when you press.</source>
        <translation>{repo} auf huggingface.co. Größe und Lizenz werden beim Klicken abgefragt.</translation>
    </message>
    <message>
        <source>Better models that suit this computer</source>
        <translation>Bessere Modelle für diesen Computer</translation>
    </message>
    <message>
        <source>Browse all</source>
        <translation>Alle ansehen</translation>
    </message>
    <message>
        <source>loaded</source>
        <translation>geladen</translation>
    </message>
    <message>
        <source>cannot run: {reason}</source>
        <translation>nicht lauffähig: {reason}</translation>
    </message>
    <message>
        <source>Models</source>
        <translation>Modelle</translation>
    </message>
    <message>
        <source>No models here yet. Choose a GGUF file or a model folder.</source>
        <translation>Noch keine Modelle hier. Eine GGUF-Datei oder einen Modellordner wählen.</translation>
    </message>
    <message>
        <source>Model picker</source>
        <translation>Modellauswahl</translation>
    </message>
    <message>
        <source>Looking for models…</source>
        <translation>Modelle werden gesucht…</translation>
    </message>
    <message>
        <source>Choose a file</source>
        <translation>Datei wählen</translation>
    </message>
    <message>
        <source>Choose a folder</source>
        <translation>Ordner wählen</translation>
    </message>
    <message>
        <source>Library</source>
        <translation>Bibliothek</translation>
    </message>
    <message>
        <source>All models, and where to find more ({keys})</source>
        <translation>Alle Modelle und wo es weitere gibt ({keys})</translation>
    </message>
    <message>
        <source>No models here yet. A smaller one of the same family in the models folder can draft.</source>
        <translation>Noch keine Modelle hier. Ein kleineres derselben Familie im Modellordner kann vorausraten.</translation>
    </message>
    <message>
        <source>Draft models on this computer</source>
        <translation>Entwurfsmodelle auf diesem Computer</translation>
    </message>
    <message>
        <source>0 takes the likeliest token each time; more is more varied</source>
        <translation>0 nimmt stets das wahrscheinlichste Token; höhere Werte bringen mehr Abwechslung</translation>
    </message>
    <message>
        <source>Only so many of the likeliest tokens; 0 is off</source>
        <translation>Nur so viele der wahrscheinlichsten Tokens; 0 schaltet ab</translation>
    </message>
    <message>
        <source>Only the likeliest tokens that make up this share; 1 is off</source>
        <translation>Nur die wahrscheinlichsten Tokens, die zusammen diesen Anteil ausmachen; 1 schaltet ab</translation>
    </message>
    <message>
        <source>Only tokens with this share of the likeliest one&apos;s chance; 0 is off</source>
        <translation>Nur Tokens mit mindestens diesem Anteil an der Wahrscheinlichkeit des wahrscheinlichsten; 0 schaltet ab</translation>
    </message>
    <message>
        <source>Above 1 what was said becomes less likely; 1 is off</source>
        <translation>Über 1 wird bereits Gesagtes unwahrscheinlicher; 1 schaltet ab</translation>
    </message>
    <message>
        <source>Taken from each token the answer has; 0 is off</source>
        <translation>Abzug für jedes Token, das in der Antwort schon vorkommt; 0 schaltet ab</translation>
    </message>
    <message>
        <source>Taken as often as the answer has the token; 0 is off</source>
        <translation>Abzug für jedes Vorkommen des Tokens in der Antwort; 0 schaltet ab</translation>
    </message>
    <message>
        <source>New each time</source>
        <translation>Jedes Mal neu</translation>
    </message>
    <message>
        <source>The same seed gives the same answer</source>
        <translation>Derselbe Seed ergibt dieselbe Antwort</translation>
    </message>
    <message>
        <source>In tokens; an answer ends there, Continue goes on</source>
        <translation>In Tokens; dort endet eine Antwort, „Fortsetzen“ führt sie weiter</translation>
    </message>
    <message>
        <source>What the model is told before the first message</source>
        <translation>Was das Modell vor der ersten Nachricht erfährt</translation>
    </message>
    <message>
        <source>How this chat is answered</source>
        <translation>Wie dieser Chat beantwortet wird</translation>
    </message>
    <message>
        <source>Reset</source>
        <translation>Zurücksetzen</translation>
    </message>
    <message>
        <source>Answer this chat as the settings say</source>
        <translation>Diesen Chat gemäß den Einstellungen beantworten</translation>
    </message>
    <message>
        <source>Preset: {name}</source>
        <translation>Vorlage: {name}</translation>
    </message>
    <message>
        <source>Save as a preset…</source>
        <translation>Als Vorlage speichern…</translation>
    </message>
    <message>
        <source>Delete “{name}”</source>
        <translation>„{name}“ löschen</translation>
    </message>
    <message>
        <source>Import from a file…</source>
        <translation>Aus Datei importieren…</translation>
    </message>
    <message>
        <source>Export to a file…</source>
        <translation>In Datei exportieren…</translation>
    </message>
    <message>
        <source>Counts from the next answer, and is kept with this chat.</source>
        <translation>Gilt ab der nächsten Antwort und bleibt mit diesem Chat gespeichert.</translation>
    </message>
    <message>
        <source>Preset: own values</source>
        <translation>Vorlage: eigene Werte</translation>
    </message>
    <message>
        <source>Preset: none</source>
        <translation>Vorlage: keine</translation>
    </message>
    <message>
        <source>Best quality</source>
        <translation>Beste Qualität</translation>
    </message>
    <message>
        <source>Fastest</source>
        <translation>Höchstes Tempo</translation>
    </message>
    <message>
        <source>Longest context</source>
        <translation>Längster Kontext</translation>
    </message>
    <message>
        <source>What is recommended: best quality</source>
        <translation>Empfohlen wird: beste Qualität</translation>
    </message>
    <message>
        <source>What is recommended: fastest</source>
        <translation>Empfohlen wird: höchstes Tempo</translation>
    </message>
    <message>
        <source>What is recommended: longest context</source>
        <translation>Empfohlen wird: längster Kontext</translation>
    </message>
    <message>
        <source>Recommended</source>
        <translation>Empfohlen</translation>
    </message>
    <message>
        <source>Already set</source>
        <translation>Bereits so</translation>
    </message>
    <message>
        <source>Sets the recommended values ({keys}); nothing is loaded before Apply.</source>
        <translation>Setzt die empfohlenen Werte ({keys}); geladen wird erst mit „Anwenden“.</translation>
    </message>
    <message>
        <source>Recommend: {preference}. Press to change</source>
        <translation>Empfehlung: {preference}. Zum Ändern klicken</translation>
    </message>
    <message>
        <source>Search titles and messages ({keys})</source>
        <translation>Titel und Nachrichten durchsuchen ({keys})</translation>
    </message>
    <message>
        <source>No chat contains &quot;{words}&quot;.</source>
        <translation>Kein Chat enthält „{words}“.</translation>
    </message>
    <message>
        <source>Chats found</source>
        <translation>Gefundene Chats</translation>
    </message>
    <message>
        <source>fits on the GPU in part</source>
        <translation>passt teilweise auf die GPU</translation>
    </message>
    <message>
        <source>cannot be used</source>
        <translation>nicht verwendbar</translation>
    </message>
    <message>
        <source>in use</source>
        <translation>in Verwendung</translation>
    </message>
    <message>
        <source>How far the move is</source>
        <translation>Fortschritt des Verschiebens</translation>
    </message>
    <message>
        <source>Search settings</source>
        <translation>Einstellung suchen</translation>
    </message>
    <message>
        <source>No setting contains &quot;{words}&quot;.</source>
        <translation>Keine Einstellung enthält „{words}“.</translation>
    </message>
    <message>
        <source>Move…</source>
        <translation>Verschieben…</translation>
    </message>
    <message>
        <source>Move {name}</source>
        <translation>{name} verschieben</translation>
    </message>
    <message>
        <source>Now in {folder}</source>
        <translation>Jetzt in {folder}</translation>
    </message>
    <message>
        <source>Move here</source>
        <translation>Hierher verschieben</translation>
    </message>
    <message>
        <source>While a part has the keyboard</source>
        <translation>Wenn ein Bereich den Fokus hat</translation>
    </message>
    <message>
        <source>{keys} or {other_keys}</source>
        <translation>{keys} oder {other_keys}</translation>
    </message>
    <message>
        <source>New chat ({keys})</source>
        <translation>Neuer Chat ({keys})</translation>
    </message>
    <message>
        <source>Sidebar</source>
        <translation>Seitenleiste</translation>
    </message>
    <message>
        <source>Close sidebar ({keys})</source>
        <translation>Seitenleiste schließen ({keys})</translation>
    </message>
    <message>
        <source>No chats yet</source>
        <translation>Noch keine Chats</translation>
    </message>
    <message>
        <source>Chats you start are kept on this computer and listed here.</source>
        <translation>Begonnene Chats bleiben auf diesem Computer und erscheinen hier.</translation>
    </message>
    <message>
        <source>Open sidebar ({keys})</source>
        <translation>Seitenleiste öffnen ({keys})</translation>
    </message>
    <message>
        <source>Search chats ({keys})</source>
        <translation>Chats durchsuchen ({keys})</translation>
    </message>
    <message>
        <source>Of the tokens guessed beforehand, those that were right (speculative decoding)</source>
        <translation>Anteil der vorausgeratenen Tokens, die richtig waren (spekulatives Decodieren)</translation>
    </message>
    <message>
        <source>What the steps read from memory, of what was measured that it can give (memory bandwidth)</source>
        <translation>Was die Schritte aus dem Speicher lesen, im Vergleich zu seinem gemessenen Höchstwert (Speicherbandbreite)</translation>
    </message>
    <message>
        <source>Time from sending to the first token of the answer</source>
        <translation>Zeit vom Senden bis zum ersten Token der Antwort</translation>
    </message>
    <message>
        <source>Memory bus</source>
        <translation>Speicherbus</translation>
    </message>
    <message>
        <source>Drafts accepted</source>
        <translation>Richtig geraten</translation>
    </message>
    <message>
        <source>Your message was read at {speed}&#xa0;tok/s (prefill)</source>
        <translation>Ihre Nachricht wurde mit {speed}&#xa0;tok/s eingelesen (Prefill)</translation>
    </message>
    <message>
        <source>of {bandwidth} GB/s</source>
        <translation>von {bandwidth} GB/s</translation>
    </message>
    <message>
        <source>GB/s · cache</source>
        <translation>GB/s · Cache</translation>
    </message>
    <message>
        <source>More than the {bandwidth}&#xa0;GB/s of memory: the processor&apos;s cache holds a part of the weights</source>
        <translation>Mehr als die {bandwidth}&#xa0;GB/s des Speichers: Der Prozessor-Cache hält einen Teil der Gewichte</translation>
    </message>
    <message>
        <source>{degrees} degrees Celsius</source>
        <translation>{degrees} Grad Celsius</translation>
    </message>
    <message>
        <source>{watts} watts</source>
        <translation>{watts} Watt</translation>
    </message>
    <message>
        <source>Time of one step</source>
        <translation>Dauer eines Schritts</translation>
    </message>
    <message>
        <source>Not known yet</source>
        <translation>Noch nicht bekannt</translation>
    </message>
    <message>
        <source>{time} for {size}</source>
        <translation>{time} für {size}</translation>
    </message>
    <message>
        <source>The model answers at once. Press to change</source>
        <translation>Das Modell antwortet sofort. Zum Ändern klicken</translation>
    </message>
    <message>
        <source>The model thinks before it answers. Press to change</source>
        <translation>Das Modell denkt vor der Antwort nach. Zum Ändern klicken</translation>
    </message>
    <message>
        <source>on</source>
        <comment>thinking</comment>
        <translation>an</translation>
    </message>
    <message>
        <source>off</source>
        <comment>thinking</comment>
        <translation>aus</translation>
    </message>
    <message>
        <source>Thinking…</source>
        <translation>Denkt nach…</translation>
    </message>
    <message>
        <source>Thought</source>
        <translation>Nachgedacht</translation>
    </message>
    <message>
        <source>Thinking… {time}</source>
        <translation>Denkt nach… {time}</translation>
    </message>
    <message>
        <source>Thought for {time}</source>
        <translation>{time} nachgedacht</translation>
    </message>
    <message>
        <source>{title}, expanded</source>
        <translation>{title}, aufgeklappt</translation>
    </message>
    <message>
        <source>{title}, collapsed</source>
        <translation>{title}, zugeklappt</translation>
    </message>
    <message>
        <source>Tuning ({keys})</source>
        <translation>Tuning ({keys})</translation>
    </message>
    <message>
        <source>{speed} tokens per second</source>
        <translation>{speed} Tokens pro Sekunde</translation>
    </message>
    <message>
        <source>Model and view</source>
        <translation>Modell und Ansicht</translation>
    </message>
    <message>
        <source>More</source>
        <translation>Mehr</translation>
    </message>
    <message>
        <source>Export this chat</source>
        <translation>Diesen Chat exportieren</translation>
    </message>
    <message>
        <source>Instructions and sampling of this chat</source>
        <translation>Anweisungen und Sampling dieses Chats</translation>
    </message>
    <message>
        <source>Instructions and sampling of this chat ({keys})</source>
        <translation>Anweisungen und Sampling dieses Chats ({keys})</translation>
    </message>
    <message>
        <source>Instructions and sampling of this chat: changed</source>
        <translation>Anweisungen und Sampling dieses Chats: geändert</translation>
    </message>
    <message>
        <source>Instructions and sampling of this chat: changed ({keys})</source>
        <translation>Anweisungen und Sampling dieses Chats: geändert ({keys})</translation>
    </message>
    <message>
        <source>As JSON, with all branches…</source>
        <translation>Als JSON, mit allen Zweigen…</translation>
    </message>
    <message>
        <source>Import chats…</source>
        <translation>Chats importieren…</translation>
    </message>
    <message>
        <source>Export all chats…</source>
        <translation>Alle Chats exportieren…</translation>
    </message>
    <message>
        <source>Choose a model file…</source>
        <translation>Modelldatei wählen…</translation>
    </message>
    <message>
        <source>Choose a model folder…</source>
        <translation>Ordner eines Modells wählen…</translation>
    </message>
    <message>
        <source>Show models folder</source>
        <translation>Modellordner anzeigen</translation>
    </message>
    <message>
        <source>All commands…</source>
        <translation>Alle Befehle…</translation>
    </message>
    <message>
        <source>Answer finished</source>
        <translation>Antwort fertig</translation>
    </message>
    <message>
        <source>Answer ended</source>
        <translation>Antwort beendet</translation>
    </message>
    <message>
        <source>You</source>
        <translation>Sie</translation>
    </message>
    <message>
        <source>Answer</source>
        <translation>Antwort</translation>
    </message>
    <message>
        <source>Copy as Markdown</source>
        <translation>Als Markdown kopieren</translation>
    </message>
    <message>
        <source>Select all</source>
        <translation>Alles auswählen</translation>
    </message>
    <message>
        <source>Copy message</source>
        <translation>Nachricht kopieren</translation>
    </message>
    <message>
        <source>Show formatted</source>
        <translation>Formatiert anzeigen</translation>
    </message>
    <message>
        <source>Show raw text</source>
        <translation>Rohtext anzeigen</translation>
    </message>
    <message>
        <source>Open link…</source>
        <translation>Link öffnen…</translation>
    </message>
    <message>
        <source>Copy link</source>
        <translation>Link kopieren</translation>
    </message>
    <message>
        <source>Tuning</source>
        <translation>Tuning</translation>
    </message>
    <message>
        <source>Close Tuning ({keys})</source>
        <translation>Tuning schließen ({keys})</translation>
    </message>
    <message>
        <source>how fast this computer writes the answer</source>
        <translation>wie schnell dieser Computer schreibt</translation>
    </message>
    <message>
        <source>Reading</source>
        <translation>Lesen</translation>
    </message>
    <message>
        <source>about how fast people read</source>
        <translation>etwa so schnell lesen Menschen</translation>
    </message>
    <message>
        <source>how long the answer takes to begin</source>
        <translation>wie lange bis zum Beginn der Antwort</translation>
    </message>
    <message>
        <source>How to read this panel</source>
        <translation>So sind die Anzeigen zu lesen</translation>
    </message>
    <message>
        <source>Settings appear here once a model is loaded.</source>
        <translation>Einstellungen folgen, sobald ein Modell geladen ist.</translation>
    </message>
    <message>
        <source>Applies after this answer</source>
        <translation>Gilt nach dieser Antwort</translation>
    </message>
    <message>
        <source>(reload {seconds}&#xa0;s)</source>
        <translation>(lädt {seconds}&#xa0;s)</translation>
    </message>
    <message numerus="yes">
        <source>Apply, reload about %n second(s)</source>
        <translation>
            <numerusform>Anwenden, Neuladen dauert etwa %n Sekunde</numerusform>
            <numerusform>Anwenden, Neuladen dauert etwa %n Sekunden</numerusform>
        </translation>
    </message>
    <message>
        <source>Reloading</source>
        <translation>Lädt neu</translation>
    </message>
    <message>
        <source>Reloading {percent}</source>
        <translation>Lädt neu {percent}</translation>
    </message>
    <message>
        <source>Reloading {percent} · {seconds}&#xa0;s left</source>
        <translation>Lädt neu {percent} · noch {seconds}&#xa0;s</translation>
    </message>
    <message numerus="yes">
        <source>Reloading {percent} · %n second(s) left</source>
        <translation>
            <numerusform>Lädt neu {percent} · noch %n Sekunde</numerusform>
            <numerusform>Lädt neu {percent} · noch %n Sekunden</numerusform>
        </translation>
    </message>
    <message>
        <source>Load although it does not fit: other programs may be pushed out of memory, or loading fails</source>
        <translation>Laden, obwohl es nicht passt: Andere Programme können aus dem Speicher verdrängt werden, oder das Laden schlägt fehl</translation>
    </message>
    <message>
        <source>Load the model again with these settings ({keys})</source>
        <translation>Modell mit diesen Einstellungen neu laden ({keys})</translation>
    </message>
    <message>
        <source>Drafting (speculative decoding): tokens are guessed and checked several at a time</source>
        <translation>Vorausraten (spekulatives Decodieren): Mehrere Tokens werden geraten und zusammen geprüft</translation>
    </message>
    <message>
        <source>Quantization</source>
        <translation>Quantisierung</translation>
    </message>
    <message>
        <source>Bits of a number in the context&apos;s memory (KV cache)</source>
        <translation>Bit je Zahl im Speicher des Kontexts (KV-Cache)</translation>
    </message>
    <message>
        <source>Draft model</source>
        <translation>Entwurf</translation>
    </message>
    <message>
        <source>The model that guesses tokens</source>
        <translation>Das Modell, das Tokens vorausrät</translation>
    </message>
    <message>
        <source>Layers of the model that lie on the GPU</source>
        <translation>Schichten des Modells, die auf der GPU liegen</translation>
    </message>
    <message>
        <source>GPU layers</source>
        <translation>Schichten</translation>
    </message>
    <message>
        <source>Draft model {model}. Press to change</source>
        <translation>Entwurfsmodell {model}. Zum Ändern klicken</translation>
    </message>
    <message>
        <source>Not measured yet: the first answer sets the gauges and checks the prediction</source>
        <translation>Noch nicht gemessen: Die erste Antwort liefert Werte für die Anzeigen und prüft die Vorhersage</translation>
    </message>
    <message>
        <source>Verdict</source>
        <translation>Einschätzung</translation>
    </message>
    <message>
        <source>Why?</source>
        <translation>Warum?</translation>
    </message>
    <message>
        <source>What the speed is made of, and what was predicted and measured before</source>
        <translation>Woraus sich das Tempo ergibt und was bisher erwartet und gemessen wurde</translation>
    </message>
    <message>
        <source>small and quick</source>
        <translation>klein und schnell</translation>
    </message>
    <message>
        <source>good answers</source>
        <translation>gute Antworten</translation>
    </message>
    <message>
        <source>better answers</source>
        <translation>bessere Antworten</translation>
    </message>
    <message>
        <source>best answers</source>
        <translation>beste Antworten</translation>
    </message>
    <message>
        <source>best balance</source>
        <translation>beste Balance</translation>
    </message>
    <message>
        <source>Opened before</source>
        <translation>Früher geöffnet</translation>
    </message>
    <message>
        <source>Drafting is off: checking a drafted token takes {extra} longer, and {chance} of them are right here.</source>
        <translation>Vorausraten ist aus: Ein geratenes Token zu prüfen dauert {extra} länger, und hier sind {chance} davon richtig.</translation>
    </message>
    <message>
        <source>Drafting is off: making and checking a drafted token takes {extra} longer, and {chance} of them are right here.</source>
        <translation>Vorausraten ist aus: Ein Token zu raten und zu prüfen dauert {extra} länger, und hier sind {chance} davon richtig.</translation>
    </message>
    <message>
        <source>{share} of it spills: about {slowdown} times slower than with room for all of it.</source>
        <translation>{share} davon werden ausgelagert: etwa {slowdown}-mal langsamer als mit Platz für alles.</translation>
    </message>
    <message>
        <source>{number}%</source>
        <comment>a share</comment>
        <translation>{number}&#xa0;%</translation>
    </message>
</context>
</TS>
