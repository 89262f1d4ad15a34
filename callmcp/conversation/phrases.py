"""What the agent says of its own accord, when no model speaks, in the languages it can say it in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrases:
    """`disclosure`: that an AI speaks, and for whom ({name}). `recorded`: that the call is. `still_there`: asked into
    silence, one after the other. `filler`: while a model takes its time. `resumed`: when a line that broke is there
    again."""

    disclosure: str
    recorded: str
    still_there: Sequence[str]
    nobody: str
    filler: str
    enough: str
    opted_out: str
    failed: str
    resumed: str


ENGLISH = Phrases(
    disclosure="This is an AI assistant calling for {name}.",
    recorded="This call is recorded.",
    still_there=("Hello? Is somebody there?", "I cannot hear anybody. Are you still there?"),
    nobody="I cannot hear you, so I will end the call here. Goodbye.",
    filler="One moment, please.",
    enough="I have to end the call here. Thank you for your time. Goodbye.",
    opted_out="I am sorry to have disturbed you. I have noted that you do not want to be called again. Goodbye.",
    failed="I am sorry, I have a technical problem and must end the call here. Goodbye.",
    resumed="I am sorry, we were cut off for a moment. I am here again.",
)
PHRASES: Mapping[str, Phrases] = {
    "en": ENGLISH,
    "de": Phrases(
        disclosure="Hier spricht eine KI-Assistenz im Auftrag von {name}.",
        recorded="Dieses Gespräch wird aufgezeichnet.",
        still_there=("Hallo? Ist da jemand?", "Ich höre niemanden. Sind Sie noch da?"),
        nobody="Ich kann Sie nicht hören und beende das Gespräch deshalb. Auf Wiederhören.",
        filler="Einen Moment, bitte.",
        enough="Ich muss das Gespräch jetzt beenden. Vielen Dank für Ihre Zeit. Auf Wiederhören.",
        opted_out="Entschuldigen Sie die Störung. Ich habe notiert, dass Sie nicht mehr angerufen werden möchten. "
        "Auf Wiederhören.",
        failed="Es tut mir leid, ich habe ein technisches Problem und muss das Gespräch beenden. Auf Wiederhören.",
        resumed="Entschuldigung, die Verbindung war kurz unterbrochen. Ich bin wieder da.",
    ),
    "fr": Phrases(
        disclosure="Ici une assistante IA, qui appelle pour {name}.",
        recorded="Cet appel est enregistré.",
        still_there=("Allô ? Il y a quelqu'un ?", "Je n'entends personne. Vous êtes toujours là ?"),
        nobody="Je ne vous entends pas, je vais donc mettre fin à l'appel. Au revoir.",
        filler="Un instant, s'il vous plaît.",
        enough="Je dois mettre fin à l'appel. Merci de votre temps. Au revoir.",
        opted_out="Désolée de vous avoir dérangé. J'ai noté que vous ne souhaitez plus être appelé. Au revoir.",
        failed="Je suis désolée, j'ai un problème technique et je dois mettre fin à l'appel. Au revoir.",
        resumed="Excusez-moi, nous avons été coupés un instant. Je suis de nouveau là.",
    ),
    "es": Phrases(
        disclosure="Le habla una asistente de inteligencia artificial, en nombre de {name}.",
        recorded="Esta llamada se está grabando.",
        still_there=("¿Hola? ¿Hay alguien ahí?", "No oigo a nadie. ¿Sigue usted ahí?"),
        nobody="No le oigo, así que voy a terminar la llamada. Adiós.",
        filler="Un momento, por favor.",
        enough="Tengo que terminar la llamada. Gracias por su tiempo. Adiós.",
        opted_out="Siento haberle molestado. He anotado que no desea recibir más llamadas. Adiós.",
        failed="Lo siento, tengo un problema técnico y debo terminar la llamada. Adiós.",
        resumed="Perdone, se ha cortado un momento. Ya estoy aquí de nuevo.",
    ),
    "it": Phrases(
        disclosure="Parla un'assistente di intelligenza artificiale, per conto di {name}.",
        recorded="Questa chiamata viene registrata.",
        still_there=("Pronto? C'è qualcuno?", "Non sento nessuno. È ancora in linea?"),
        nobody="Non riesco a sentirla, quindi chiudo la chiamata. Arrivederci.",
        filler="Un momento, per favore.",
        enough="Devo chiudere la chiamata. Grazie per il suo tempo. Arrivederci.",
        opted_out="Mi scusi per il disturbo. Ho annotato che non desidera più essere chiamato. Arrivederci.",
        failed="Mi dispiace, ho un problema tecnico e devo chiudere la chiamata. Arrivederci.",
        resumed="Mi scusi, la linea è caduta per un attimo. Sono di nuovo qui.",
    ),
    "pt": Phrases(
        disclosure="Fala uma assistente de inteligência artificial, em nome de {name}.",
        recorded="Esta chamada está a ser gravada.",
        still_there=("Alô? Há alguém aí?", "Não ouço ninguém. Ainda está aí?"),
        nobody="Não consigo ouvir, por isso vou terminar a chamada. Adeus.",
        filler="Um momento, por favor.",
        enough="Tenho de terminar a chamada. Obrigada pelo seu tempo. Adeus.",
        opted_out="Desculpe o incómodo. Anotei que não deseja voltar a ser contactado. Adeus.",
        failed="Lamento, tenho um problema técnico e preciso de terminar a chamada. Adeus.",
        resumed="Desculpe, a ligação caiu por um momento. Já estou aqui de novo.",
    ),
    "nl": Phrases(
        disclosure="U spreekt met een AI-assistent, namens {name}.",
        recorded="Dit gesprek wordt opgenomen.",
        still_there=("Hallo? Is daar iemand?", "Ik hoor niemand. Bent u er nog?"),
        nobody="Ik kan u niet horen en beëindig daarom het gesprek. Tot ziens.",
        filler="Een ogenblik, alstublieft.",
        enough="Ik moet het gesprek nu beëindigen. Bedankt voor uw tijd. Tot ziens.",
        opted_out="Sorry dat ik u stoorde. Ik heb genoteerd dat u niet meer gebeld wilt worden. Tot ziens.",
        failed="Het spijt me, ik heb een technisch probleem en moet het gesprek beëindigen. Tot ziens.",
        resumed="Sorry, de verbinding was even weg. Ik ben er weer.",
    ),
}


def phrases_in(language: str) -> Phrases:
    """Those of a BCP 47 language; English where there are none in it."""
    return PHRASES.get(language.split("-", 1)[0].lower(), ENGLISH)
